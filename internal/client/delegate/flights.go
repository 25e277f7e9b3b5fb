package delegate

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/posix"
)

// MaxFlights bounds the batches under way.
const MaxFlights = 4

// Flying returns the number of batches under way.
func (l *Log) Flying() int { return len(l.flights) }

// Unsent returns the number of operations that are in no batch yet. enough means that they suffice for a
// batch.
func (l *Log) Unsent() (n int, enough bool) {
	from := l.inFlight()
	_, enough = l.take(from)
	return len(l.ops) - from, enough
}

// inFlight returns the number of operations in batches under way.
func (l *Log) inFlight() (n int) {
	for _, ops := range l.flights {
		n += ops
	}
	return n
}

// Sent returns the number of the newest operation that is, or was, in a batch.
func (l *Log) Sent() uint64 { return l.Acknowledged() + uint64(l.inFlight()) }

// take returns the number of operations from ops[from] on for the next batch. full means that the batch
// cannot hold more. A withheld operation and all later ones are in no batch (L7).
func (l *Log) take(from int) (n int, full bool) {
	size := 0
	for i := from; i < len(l.ops) && !l.ops[i].withheld; i++ {
		p := &l.ops[i]
		if n > 0 && size+p.size > maxBatch {
			return n, true
		}
		if n, size = n+1, size+p.size; n == delegation.MaxOps {
			return n, true
		}
	}
	return n, false
}

// Next returns the next batch, which is under way from then on (L2). ok is false if there is none, or if
// MaxFlights batches are under way.
func (l *Log) Next() (x delegation.Batch, ok bool) {
	from := l.inFlight()
	n, _ := l.take(from)
	if n == 0 || len(l.flights) == MaxFlights {
		return x, false
	}
	l.flights = append(l.flights, n)
	x = delegation.Batch{Log: l.cfg.Number, First: l.first + uint64(from)}
	for i := range l.ops[from : from+n] {
		x.Ops = append(x.Ops, l.ops[from+i].Op)
	}
	return x, true
}

// Acknowledge applies the answer to a batch. It returns the operations that are acknowledged by it. If on is
// false, the log has ended, and the other operations are lost (L4).
func (l *Log) Acknowledge(d *delegation.Done) (done []delegation.Op, on bool) {
	n := 0
	if d.Next > l.first {
		n = min(int(d.Next-l.first), l.inFlight())
	}
	for i, p := range l.ops[:n] {
		done = append(done, p.Op)
		l.bytes -= p.size
		if l.forget(p.inos, l.first+uint64(i)) {
			l.released++
		}
	}
	rest := make([]pending, len(l.ops)-n, max(2*(len(l.ops)-n), 64))
	copy(rest, l.ops[n:])
	l.ops = rest
	l.first += uint64(n)
	for n > 0 {
		landed := min(n, l.flights[0])
		if l.flights[0] -= landed; l.flights[0] == 0 {
			l.flights = l.flights[1:]
		}
		n -= landed
	}
	return done, !d.Stopped
}

// forget drops the information about the inodes of an acknowledged operation. It reports whether the client
// does not answer for one of them any more.
func (l *Log) forget(inos []posix.Ino, number uint64) (released bool) {
	for _, ino := range inos {
		if l.newest[ino] == number {
			delete(l.newest, ino)
		}
		released = released || !l.Covers(ino)
	}
	return released
}

// Landed reports whether all operations of a batch are acknowledged. Otherwise the batch must be sent again.
func (l *Log) Landed(x *delegation.Batch) bool { return x.First+uint64(len(x.Ops)) <= l.first }
