package ordering

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// Cost is the work that keeps a process and its network interface busy in virtual time.
type Cost struct {
	// Measured adds the CPU time of each step of the core. Without it, runs with the same seed are equal.
	Measured bool `json:"measured"`
	// Frame is the price of each sent frame and of each received one: the system call and the network stack.
	Frame time.Duration `json:"frame_ns"`
	// Wake is the price of a step that finds the process asleep: the interrupt, the scheduler.
	Wake time.Duration `json:"wake_ns"`
	// Bandwidth of a process's network interface for sent frames, in bits a second; 0: no limit.
	Bandwidth int `json:"bandwidth_bits_per_s"`
}

// Ethernet, IP and TCP add so many bytes to each packet, which carries up to so many bytes of a frame.
const (
	packetHeader = 78
	packetData   = 1448
)

// transmission returns the time for which a frame occupies the network interface.
func (c *Cost) transmission(frame int) time.Duration {
	if c.Bandwidth == 0 {
		return 0
	}
	bytes := frame + (frame/packetData+1)*packetHeader
	return time.Duration(float64(bytes) * 8 / float64(c.Bandwidth) * float64(time.Second))
}

// DefaultCost has prices measured with a Go program on two cores and a loopback TCP connection, 100,000
// frames of 256 bytes. Streamed, a frame takes 3.3 us of CPU at both ends together, 1.9 of them at the
// writer: about 2 us for each end. In ping-pong an end takes 11.7 us for a received frame and a sent one: the
// remaining 7.7 us are for waking up. The bandwidth is that of the thesis' cluster.
func DefaultCost() Cost {
	return Cost{Measured: true, Frame: 2 * time.Microsecond, Wake: 7700 * time.Nanosecond, Bandwidth: 1_000_000_000}
}

// Validate names the wrong field and the remedy.
func (c *Cost) Validate() error {
	if c.Frame < 0 || c.Wake < 0 || c.Bandwidth < 0 {
		return fmt.Errorf("cost: %v a frame, %v to wake up, %d bits a second: give 0 or more", c.Frame, c.Wake, c.Bandwidth)
	}
	return nil
}

// meter measures the CPU time between start and stop on the current thread.
type meter struct {
	started  time.Duration
	overhead time.Duration // of reading the clock twice
	err      error         // of the first read that failed
}

// newMeter measures the overhead of its own reading of the clock.
func newMeter() (*meter, error) {
	m := &meter{overhead: time.Hour}
	for range 100 {
		start := m.read()
		m.overhead = min(m.overhead, m.read()-start)
	}
	return m, m.err
}

func (m *meter) read() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil && m.err == nil {
		m.err = fmt.Errorf("clock of the thread's CPU time: %w", err)
	}
	return time.Duration(ts.Nano())
}

func (m *meter) start() { m.started = m.read() }

func (m *meter) stop() time.Duration { return max(0, m.read()-m.started-m.overhead) }

// garbage is the size of the heap, in bytes, at which the collector runs.
const garbage = 512 << 20

// collector runs the garbage collector between steps instead of during them.
type collector struct {
	percent int
	heap    []metrics.Sample
}

// newCollector turns the automatic collector off, and locks the goroutine to its thread, for the meter; close
// undoes both.
func newCollector() *collector {
	runtime.LockOSThread()
	return &collector{
		percent: debug.SetGCPercent(-1),
		heap:    []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}},
	}
}

// collect is called between steps.
func (c *collector) collect() {
	if metrics.Read(c.heap); c.heap[0].Value.Uint64() > garbage {
		runtime.GC()
	}
}

func (c *collector) close() {
	debug.SetGCPercent(c.percent)
	runtime.UnlockOSThread()
}
