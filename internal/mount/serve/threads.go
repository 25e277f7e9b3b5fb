package serve

import "sync/atomic"

// Order is the place of a request among the requests of a mount, and its thread. The zero value is before all
// requests.
type Order struct {
	number uint64 // requests are numbered as they begin
	thread uint32 // 0: not known
}

// threads remembers the newest request of each thread. A thread waits in the kernel until the kernel has
// processed the answer to its request. So an answer is processed once its thread makes another request.
type threads struct {
	count  atomic.Uint64          // number of requests that have begun
	newest [1 << 10]atomic.Uint64 // by thread modulo the length: thread and number of its newest request, packed
}

// Bits of a packed thread and number. Linux has less than 1<<22 threads (PID_MAX_LIMIT).
const (
	threadBits = 22
	numberBits = 64 - threadBits
)

// begin numbers a request. A thread that does not wait for the answer is not remembered: the request may have
// been made before an earlier one was answered.
func (t *threads) begin(thread uint32, waits bool) Order {
	o := Order{number: t.count.Add(1)}
	if thread >= 1<<threadBits || !waits {
		return o
	}
	o.thread = thread
	t.slot(thread).Store(uint64(thread)<<numberBits | o.number&(1<<numberBits-1))
	return o
}

func (t *threads) slot(thread uint32) *atomic.Uint64 { return &t.newest[int(thread)%len(t.newest)] }

// isProcessed reports whether the kernel has certainly processed the answer to a request.
func (t *threads) isProcessed(o Order) bool {
	if o.number == 0 {
		return true
	}
	newest := t.slot(o.thread).Load()
	return o.thread != 0 && newest>>numberBits == uint64(o.thread) && newest&(1<<numberBits-1) > o.number
}

// IsProcessed reports whether the kernel has certainly processed the answer to a request.
func (k *Kernel) IsProcessed(o Order) bool { return k == nil || k.server.threads.isProcessed(o) }

// Begun returns the number of requests that have begun so far.
func (k *Kernel) Begun() uint64 {
	if k == nil {
		return 0
	}
	return k.server.threads.count.Load()
}

// IsAfter reports whether the request has begun later than begun, a result of Begun.
func (o Order) IsAfter(begun uint64) bool { return o.number > begun }
