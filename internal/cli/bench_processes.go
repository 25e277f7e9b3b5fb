package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/bench/compare"
	"github.com/globalfs/globalfs/internal/mount"
)

// mountCounters returns the function that reads the counters of the mount at path, and the processes of the
// mount and of its cluster that run on this machine. Both are nil for another file system.
func mountCounters(ctx context.Context, path string) (func(context.Context) (compare.Counters, error), []compare.Process) {
	var first mount.Counters
	if err := getJSON(ctx, path, mount.XattrCounters, &first); err != nil {
		return nil, nil
	}
	read := func(ctx context.Context) (c compare.Counters, err error) {
		var now mount.Counters
		err = getJSON(ctx, path, mount.XattrCounters, &now)
		return compare.Counters{Requests: now.Requests, Queries: now.Queries, Commands: now.Commands}, err
	}
	processes := []compare.Process{{Name: "mount", PID: first.PID}}
	for _, s := range first.Servers {
		if pid := listener(s.Address); pid != 0 && !slices.ContainsFunc(processes, func(p compare.Process) bool { return p.PID == pid }) {
			processes = append(processes, compare.Process{Name: s.Name, PID: pid})
		}
	}
	return read, processes
}

// listener returns the id of the process of this machine that listens at an address; 0: this user sees none.
func listener(address string) int {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isLocal(host) {
		return 0
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if text, err := os.ReadFile(table); err == nil {
			listening(text, uint16(number), sockets)
		}
	}
	return ownerOf(sockets)
}

func isLocal(host string) bool {
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(ips, func(ip net.IP) bool {
		return ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		})
	})
}

// listening adds the sockets that listen on a port to a set, by their names in /proc/PID/fd. text is the
// content of /proc/net/tcp.
func listening(text []byte, port uint16, into map[string]bool) {
	const stateListen = "0A"
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // number, local address, remote address, state, ..., inode
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		_, hexPort, _ := strings.Cut(fields[1], ":")
		b, err := hex.DecodeString(hexPort)
		if err == nil && len(b) == 2 && uint16(b[0])<<8|uint16(b[1]) == port {
			into["socket:["+fields[9]+"]"] = true
		}
	}
}

// ownerOf returns a process with one of these files open; 0: there is none.
func ownerOf(files map[string]bool) int {
	if len(files) == 0 {
		return 0
	}
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0
	}
	for _, d := range descriptors {
		if target, err := os.Readlink(d); err == nil && files[target] {
			pid, _ := strconv.Atoi(strings.Split(d, "/")[2]) // the pattern has digits
			return pid
		}
	}
	return 0
}

// processName returns the short name of a running process.
func processName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return strconv.Itoa(pid)
	}
	return strings.TrimSpace(string(name))
}
