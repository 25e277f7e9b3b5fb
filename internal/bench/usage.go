package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usage is the CPU time and the disk writes of this process so far.
type usage struct {
	cpu     time.Duration // of all threads, including the kernel's part
	written int64         // bytes for the disk, see /proc/PID/io in proc(5): dirtied pages, minus pages dropped before they were written
}

// used reads the counters of the kernel.
func used() (usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return usage{}, fmt.Errorf("bytes written by this process: %w", err)
	}
	var read, written, cancelled, calls int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: %d",
		&calls, &calls, &calls, &calls, &read, &written, &cancelled); err != nil {
		return usage{}, fmt.Errorf("/proc/self/io: %w", err)
	}
	return usage{cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano()), written: written - cancelled}, nil
}

func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, written: u.written - before.written}
}

func (u usage) plus(other usage) usage {
	return usage{cpu: u.cpu + other.cpu, written: u.written + other.written}
}

// ticksPerSecond is the unit of /proc/PID/stat (USER_HZ), the same on all Linux systems that Go runs on.
const ticksPerSecond = 100

// ProcessTime returns the CPU time of a running process, including the kernel's time for it, with a
// resolution of a hundredth of a second.
func ProcessTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain any characters; utime and stime are 11 fields after it.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
