package wan

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/internal/topology"
)

const (
	// batch is the maximum number of packets of one TUN per read of the clock.
	batch = 64
	// largest is the size of the largest frame.
	largest = headerSize + 65535
)

// router moves packets between the TUNs of all hosts. Its goroutine holds the lock except while it sleeps.
type router struct {
	hosts []*host
	byIP  map[[4]byte]int
	began time.Time
	epoll int
	wake  int // an eventfd: paths have changed, or the router must end
	done  chan struct{}

	mu       sync.Mutex
	paths    []path           // GUARDED_BY mu; from the i-th host to the j-th at i*len(hosts)+j
	schedule heap.Heap[*path] // the paths with packets in flight; GUARDED_BY mu
	late     lateness         // GUARDED_BY mu
	ending   bool             // GUARDED_BY mu
	failed   error            // GUARDED_BY mu; the error that stopped the router

	random  *rand.Rand // this and the following fields belong to the goroutine
	pool    pool
	scratch []byte // for one segment
}

func newRouter(hosts []*host, random *rand.Rand) *router {
	n := len(hosts)
	r := &router{
		hosts: hosts, byIP: make(map[[4]byte]int), began: time.Now(), done: make(chan struct{}),
		paths: make([]path, n*n), random: random, scratch: make([]byte, largest),
	}
	for i, h := range hosts {
		r.byIP[h.address.As4()] = i
	}
	for i := range r.paths {
		p := &r.paths[i]
		p.from, p.to, p.index = i/n, i%n, -1
		p.From, p.To = hosts[p.from].Name, hosts[p.to].Name
	}
	return r
}

// setDelays sets the normal shape of all paths.
func (r *router) setDelays(delay func(from, to topology.Region) time.Duration) error {
	for i := range r.paths {
		p := &r.paths[i]
		if p.from != 0 && p.to != 0 {
			p.normal.Delay = delay(r.hosts[p.from].Region, r.hosts[p.to].Region)
		}
		if err := p.normal.validate(); err != nil {
			return fmt.Errorf("link from %s to %s: %w", p.From, p.To, err)
		}
		p.Link = p.normal
	}
	return nil
}

func (r *router) now() time.Duration { return time.Since(r.began) }

// start starts the goroutine.
func (r *router) start() (err error) {
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("make an epoll: %w", err)
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(r.epoll)
		return fmt.Errorf("make an eventfd: %w", err)
	}
	watched := []int{r.wake} // event -1; the event of the i-th TUN is i
	for _, h := range r.hosts {
		watched = append(watched, h.tun)
	}
	for i, descriptor := range watched {
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i - 1)}
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, descriptor, &event); err != nil {
			_ = unix.Close(r.epoll)
			_ = unix.Close(r.wake)
			return fmt.Errorf("watch a TUN: %w", err)
		}
	}
	go r.run()
	return nil
}

// stop ends the goroutine and returns the error that had ended it before.
func (r *router) stop() error {
	r.mu.Lock()
	r.ending = true
	r.interrupt()
	r.mu.Unlock()
	<-r.done
	_ = unix.Close(r.epoll)
	_ = unix.Close(r.wake)
	return r.failed
}

// interrupt makes the router read its state again.
func (r *router) interrupt() {
	one := make([]byte, 8)
	binary.NativeEndian.PutUint64(one, 1)
	_, _ = unix.Write(r.wake, one) // EAGAIN: 2^64 are pending
}

func (r *router) run() {
	defer close(r.done)
	runtime.LockOSThread() // permanently: the thread ends with the goroutine, and so does its priority
	hurry()
	var events [64]unix.EpollEvent
	buffer := make([]byte, largest)
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ending {
		r.deliver()
		var timeout *unix.Timespec
		if len(r.schedule) > 0 {
			t := unix.NsecToTimespec(int64(max(0, r.schedule[0].due()-r.now())))
			timeout = &t
		}
		r.mu.Unlock()
		n, err := wait(r.epoll, events[:], timeout)
		r.mu.Lock()
		if err != nil {
			r.failed = fmt.Errorf("the router waits for packets: %w", err)
			return
		}
		for _, event := range events[:n] {
			if event.Fd < 0 {
				_, _ = unix.Read(r.wake, buffer[:8])
				continue
			}
			if err := r.receive(int(event.Fd), buffer); err != nil {
				r.failed = err
				return
			}
		}
	}
}

// hurry sets the timer slack and the priority of this thread, so that it wakes up in time. Without the right
// to real-time priority, packets are late on a busy machine.
func hurry() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	_ = unix.SchedSetAttr(0, &attributes, 0)
}

// deliver delivers all due packets. The caller holds mu.
func (r *router) deliver() {
	now := r.now()
	for len(r.schedule) > 0 && r.schedule[0].due() <= now {
		p := r.schedule[0]
		r.late.add(now - p.due())
		frame := p.pop()
		if p.inFlight() {
			r.schedule.Fix(0)
		} else {
			r.schedule.Pop()
		}
		if p.Down {
			p.Dropped++
		} else {
			r.write(p, frame)
		}
		r.pool.put(frame)
	}
}

// receive reads a batch of packets from a host's TUN. The caller holds mu.
func (r *router) receive(from int, buffer []byte) error {
	now := r.now()
	for range batch {
		n, errno := transfer(unix.SYS_READ, r.hosts[from].tun, buffer)
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return nil // EINTR: epoll reports it again
		}
		if errno != 0 {
			return fmt.Errorf("read the TUN of host %s: %w", r.hosts[from].Name, errno)
		}
		frame := buffer[:n]
		if n < headerSize+20 || frame[headerSize]>>4 != 4 {
			continue // IPv6, or from a raw socket
		}
		if to, ok := r.byIP[[4]byte(frame[headerSize+16:])]; ok {
			r.forward(&r.paths[from*len(r.hosts)+to], frame, now)
		}
	}
	return nil
}

// forward sends a frame of a host over a path. The caller keeps the frame, and holds mu.
func (r *router) forward(p *path, frame []byte, now time.Duration) {
	if p.Loss == 0 && p.Rate == 0 {
		r.send(p, frame, now)
		return
	}
	for segment := range segments(frame, r.scratch) {
		r.send(p, segment, now)
	}
}

func (r *router) send(p *path, frame []byte, now time.Duration) {
	due, ok := p.admit(now, len(frame)-headerSize, r.random)
	if !ok {
		return
	}
	if due <= now && !p.inFlight() {
		r.write(p, frame)
		return
	}
	kept := r.pool.get(len(frame))
	copy(kept, frame)
	p.push(kept, due)
	if p.index < 0 {
		r.schedule.Push(p)
	}
}

func (r *router) write(p *path, frame []byte) {
	if _, errno := transfer(unix.SYS_WRITE, r.hosts[p.to].tun, frame); errno != 0 {
		p.Dropped++ // its interface is down
		return
	}
	p.Packets++
	p.Bytes += uint64(len(frame) - headerSize)
}

// reshape changes a path. The caller holds mu, and interrupts the router after all changes.
func (r *router) reshape(p *path, link Link) {
	p.reshape(link, r.now())
	if p.index >= 0 {
		r.schedule.Fix(p.index)
	}
}

// transfer reads or writes a TUN with a raw system call. The call never blocks, so the Go scheduler need not
// know it: the scheduler would give the router's processor to others meanwhile.
func transfer(call uintptr, tun int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(call, uintptr(tun), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), errno
}

// wait is epoll_pwait2, because epoll_wait counts in milliseconds. A nil timeout means no limit.
func wait(epoll int, events []unix.EpollEvent, timeout *unix.Timespec) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(timeout)), 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
