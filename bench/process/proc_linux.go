package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// endWithParent makes the kernel end a child when its parent dies.
func endWithParent() *syscall.SysProcAttr {
	// A group of its own: Ctrl-C is for the parent, which ends its children in order.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// rssOf returns the resident memory of a running process, in bytes.
func rssOf(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %d fields", pid, len(fields))
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/statm: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}
