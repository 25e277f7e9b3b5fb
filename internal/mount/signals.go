package mount

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fate is the state of the process that waits for a request, as far as the mount knows.
type fate uint8

const (
	unknown fate = iota // the thread is in another PID namespace, or hidden
	living              // no pending signal ends its process
	doomed              // a pending signal will end its process, or the thread has ended
)

// fateOf returns the fate of a thread. The kernel informs the mount only of the first signal of a waiting
// thread, without its number.
func fateOf(tid uint32) fate {
	if tid == 0 {
		return unknown
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", tid))
	switch {
	case errors.Is(err, fs.ErrNotExist) && unix.Kill(int(tid), 0) == unix.ESRCH: // the thread does not exist; otherwise it would only be hidden
		return doomed
	case err != nil:
		return unknown
	}
	defer func() { _ = f.Close() }()
	sets := map[string]uint64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.HasPrefix(name, "Sig") || name == "ShdPnd" {
			sets[name], _ = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, unix.ESRCH): // it has ended meanwhile
		return doomed
	case err != nil:
		return unknown
	}
	if endsProcess(sets["SigPnd"]|sets["ShdPnd"], sets["SigBlk"], sets["SigIgn"]|sets["SigCgt"]) {
		return doomed
	}
	return living
}

// endsProcess reports whether one of the pending signals ends its process: SIGKILL, which the kernel adds
// for other signals that end a process at once, or a signal with the default action that is not blocked.
// Each signal is a bit; the lowest bit is signal 1.
func endsProcess(pending, blocked, handled uint64) bool {
	const harmless = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGCONT-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1) |
		1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	const kill = 1 << (unix.SIGKILL - 1)
	return pending&kill != 0 || pending&^blocked&^handled&^harmless != 0
}
