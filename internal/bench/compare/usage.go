package compare

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// usage has the CPU time of the processes of a directory, and the counters of its mount, so far.
type usage struct {
	cpu      []time.Duration // by process
	counters Counters
}

func (d *Directory) usage(ctx context.Context) (u usage, err error) {
	for _, p := range d.Processes {
		cpu, err := processTime(p.PID)
		if err != nil {
			return u, fmt.Errorf("CPU time of %s: %w: the process has ended, or --pid is wrong", p.Name, err)
		}
		u.cpu = append(u.cpu, cpu)
	}
	if d.Counters != nil {
		u.counters, err = d.Counters(ctx)
	}
	return u, err
}

// processTime returns the CPU time that a running process has used, its own and the kernel's for it.
func processTime(pid int) (time.Duration, error) {
	const cpuClock = 2 // CPUCLOCK_SCHED of clock_getcpuclockid(3)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClock), &t); err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
