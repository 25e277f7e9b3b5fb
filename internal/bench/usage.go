package bench

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what this process has used so far.
type usage struct {
	cpu     time.Duration // of all its threads, the kernel's part included
	written int64         // bytes for the disk, see /proc/PID/io in proc(5): pages made dirty, less those thrown away before they were written
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
