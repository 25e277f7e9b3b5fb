package sim

import (
	"time"

	"github.com/globalfs/globalfs/internal/turn"
)

// disk is the write-ahead log of a process and the gate before all its output.
type disk struct {
	records   [][]byte // the durable records, from the last checkpoint on
	ends      []LogEnd // the end of the log after each record
	synced    int      // the number of records that survive a loss of power
	least     LogEnd   // a loss of power does not shorten the log below this end
	writing   []*write // the writes that are not durable yet, in order
	free      time.Duration
	slowUntil time.Duration
	dark      bool // the process has lost power, and its core has not recorded this yet
}

// write is the output of one step, which leaves when its records are durable.
type write struct {
	out    turn.Output
	early  []uint64 // the eras of the links of out.Early at the time of the step
	eras   []uint64 // the eras of the links of out.Frames
	ends   []LogEnd // the end of the log after each of out.Records; nil: unknown
	leaked bool     // a frame of out.Early has arrived
}

func (d *disk) busy() bool { return len(d.writing) > 0 }

// write schedules the write of the output of a step of p. An output without records only waits for the
// earlier writes.
func (d *disk) write(p *process, w *write) {
	n := p.net
	at := max(n.now, d.free)
	if len(w.out.Records) > 0 {
		at = max(at, n.now+n.between(0, n.cfg.DiskMax), d.slowUntil)
	}
	d.free = at
	if !d.busy() {
		p.releaseEarly(w)
	}
	if at == n.now && !d.busy() {
		d.keep(w, len(w.out.Records))
		p.release(w)
		return
	}
	d.writing = append(d.writing, w)
	incarnation := p.incarnation
	n.Schedule(at, func() {
		if !p.runs(incarnation) {
			return
		}
		d.writing = d.writing[1:]
		d.keep(w, len(w.out.Records))
		p.release(w)
		if d.busy() {
			p.releaseEarly(d.writing[0])
		}
	})
}

// keep makes the first records of a write durable.
func (d *disk) keep(w *write, count int) {
	if w.out.Checkpoint && count > 0 {
		d.records, d.ends = nil, nil
		d.synced = 1
	}
	d.records = append(d.records, w.out.Records[:count]...)
	if w.ends == nil {
		w.ends = make([]LogEnd, count)
	}
	d.ends = append(d.ends, w.ends[:count]...)
	if w.out.Sync && count == len(w.out.Records) {
		d.synced, d.dark = len(d.records), false
	}
}

// opened is called when a process starts from its records: replayed records were synced before.
func (d *disk) opened() {
	d.synced = len(d.records)
	if len(d.ends) != d.synced { // the log was replaced
		d.ends = make([]LogEnd, d.synced)
	}
}

// lose ends all writes at a crash: a random number of the first unfinished records become durable.
func (d *disk) lose(n *Network) {
	for _, w := range d.writing {
		whole := len(w.out.Records)
		count := n.rng.IntN(whole + 1)
		d.keep(w, count)
		switch {
		case 0 < count && count < whole:
			n.mark(Torn)
		case 0 < count && len(w.out.Frames) > 0:
			n.mark(Unsent)
		}
		if count < whole && w.leaked {
			n.mark(Forgotten)
		}
		if count < whole || n.percent(50) {
			break
		}
	}
	d.writing, d.free, d.slowUntil = nil, 0, 0
}
