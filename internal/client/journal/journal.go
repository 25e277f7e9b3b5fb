package journal

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds.
const (
	retained = 4 << 20   // bytes of records that remain for repeated requests of the kernel (J5) while the room is not needed
	reserve  = 256 << 10 // bytes for records other than operations
	// Spare is the room in bytes that Full keeps for one more operation.
	Spare = 1 << 20
)

// Journal is the journal of one client. It is not safe for concurrent use. A nil Journal records nothing.
type Journal struct {
	ring ring
	kept []kept      // the records in the ring, the oldest first
	logs map[ID]*log // logs that have not ended, or have records in the ring

	answers map[uint64][]Answer // outcomes of the earlier process, by request
	encoded []byte              // buffer of the next record
}

// kept is a record in the ring.
type kept struct {
	position uint64
	log      *log
	number   uint64 // number of the operation; 0: the record begins the log
}

// log is a log of held directories (package delegate), as far as the journal knows it.
type log struct {
	id    ID
	acked uint64 // all operations up to this number are ordered
	ended bool
	kept  int         // number of records
	last  uint64      // the number of the newest operation
	ops   []Operation // operations of the earlier process, until they are taken over
}

// Answer is the outcome of an operation that an earlier process has executed, and may not have answered.
type Answer struct {
	ID
	Operation
}

// Log is the content of a log of held directories (package delegate) that an earlier process has not ended.
type Log struct {
	ID
	First uint64 // number of the first of Ops; without Ops the number of the next operation
	Ops   []Operation
}

// Open opens the journal in memory of Size bytes, which is new or was written by another process. It returns
// the logs that have not ended.
func Open(memory []byte) (*Journal, []Log, error) {
	if len(memory) <= headerSize+reserve+Spare {
		return nil, nil, fmt.Errorf("log of held directories: %d bytes of memory: want %d", len(memory), Size)
	}
	j := &Journal{ring: ring{memory: memory}, logs: map[ID]*log{}, answers: map[uint64][]Answer{}}
	if isNew(memory) {
		j.ring.prepare()
		return j, nil, nil
	}
	if err := j.ring.open(); err != nil {
		return nil, nil, err
	}
	for {
		content, position, ok := j.ring.next()
		if !ok {
			break
		}
		r, err := decode(content)
		if err != nil {
			return nil, nil, fmt.Errorf("log of held directories: record at %d: %w: unmount, and mount again; what it holds is lost", position, err)
		}
		j.replay(&r, position)
	}
	return j, j.recovered(), nil
}

// replay applies a record that was read.
func (j *Journal) replay(r *record, position uint64) {
	l := j.of(r.id)
	switch r.kind {
	case begun:
		j.keep(position, l, 0)
	case operation, blockOperation:
		j.keep(position, l, r.op.Number)
		l.last = r.op.Number
		l.ops = append(l.ops, r.op)
		if r.op.Request != 0 {
			j.answers[r.op.Request] = append(j.answers[r.op.Request], Answer{r.id, r.op})
		}
	case acknowledged:
		l.acked = max(l.acked, r.number)
	case ended:
		l.ended = true
	}
}

// recovered returns the logs that have not ended, with the operations that are not known to be ordered. The
// newest log of a partition comes first.
func (j *Journal) recovered() (all []Log) {
	for _, l := range j.logs {
		first := max(l.acked, l.firstMissing()) + 1
		if !l.ended {
			x := Log{ID: l.id, First: first}
			for _, op := range l.ops {
				if op.Number >= first {
					x.Ops = append(x.Ops, op)
				}
			}
			all = append(all, x)
		}
		l.ops = nil
	}
	slices.SortFunc(all, func(a, b Log) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.Number, a.Number))
	})
	return all
}

// firstMissing returns the number of the operation before the first one in the journal. All operations up to
// that number were acknowledged.
func (l *log) firstMissing() uint64 {
	if len(l.ops) == 0 {
		return l.last
	}
	return l.ops[0].Number - 1
}

func (j *Journal) of(id ID) *log {
	l := j.logs[id]
	if l == nil {
		l = &log{id: id}
		j.logs[id] = l
	}
	return l
}

// Begin records that a log begins.
func (j *Journal) Begin(id ID) {
	if j != nil {
		j.begin(j.of(id))
	}
}

func (j *Journal) begin(l *log) {
	if at, ok := j.write(&record{kind: begun, id: l.id}, 0); ok {
		j.keep(at, l, 0)
	}
}

func (j *Journal) keep(position uint64, l *log, number uint64) {
	l.kept++
	j.kept = append(j.kept, kept{position, l, number})
}

// Append records an operation (J1). If it returns false, there was no room, and the caller must not execute
// the operation. Full reports this before, unless the operation is larger than Spare.
func (j *Journal) Append(id ID, op *Operation) bool {
	if j == nil {
		return true
	}
	r := record{kind: operation, id: id, op: *op}
	if op.Block != nil {
		r.kind = blockOperation
	}
	at, ok := j.write(&r, reserve)
	if ok {
		l := j.of(id)
		l.last = op.Number
		j.keep(at, l, op.Number)
	}
	return ok
}

// Acknowledge records that all operations of a log up to a number are ordered.
func (j *Journal) Acknowledge(id ID, number uint64) {
	if j == nil {
		return
	}
	if l := j.of(id); number > l.acked {
		l.acked = number
		j.write(&record{kind: acknowledged, id: id, number: number}, 0) // without the record, the operations are sent again (J4)
		j.trim(retained)
	}
}

// End records that a log has ended (J3).
func (j *Journal) End(id ID) {
	if j == nil {
		return
	}
	l := j.of(id)
	l.ended = true
	j.write(&record{kind: ended, id: id}, 0)
	j.trim(retained)
}

// Full reports whether the next operation may have no room.
func (j *Journal) Full() bool {
	if j == nil || j.ring.room() >= reserve+Spare {
		return false
	}
	j.trim(0)
	return j.ring.room() < reserve+Spare
}

// TakesBlock reports whether there is room for an operation with a block of n bytes, and for further
// operations. There is none in memory of an older version, because a log holder of that version may read the
// memory.
func (j *Journal) TakesBlock(n int) bool {
	if j == nil {
		return true
	}
	need := uint64(n) + reserve + 2*Spare
	if j.ring.room() < need {
		j.trim(0)
	}
	return j.ring.format == format && j.ring.room() >= need
}

// Bytes returns the size of the operations that are kept.
func (j *Journal) Bytes() int {
	if j == nil {
		return 0
	}
	return int(j.ring.tail - j.ring.head)
}

// Answer returns the outcome of an operation that an earlier process has executed for a request and may not
// have answered (J5). same reports whether the operation is the one that the request asks for now.
func (j *Journal) Answer(request uint64, same func(*Operation) bool) (*Answer, bool) {
	if j == nil || request == 0 {
		return nil, false
	}
	all := j.answers[request]
	if len(all) == 0 || !same(&all[0].Operation) {
		return nil, false
	}
	if len(all) == 1 {
		delete(j.answers, request)
	} else {
		j.answers[request] = all[1:]
	}
	return &all[0], true
}

// write appends a record if at least left bytes remain free after it.
func (j *Journal) write(r *record, left uint64) (position uint64, ok bool) {
	j.encoded = r.append(j.encoded[:0])
	need := uint64(len(j.encoded)) + uint64(len(r.op.Block)) + recordSize + left
	if j.ring.room() < need {
		j.trim(0)
	}
	if j.ring.room() < need {
		return 0, false
	}
	return j.ring.append(j.encoded, r.op.Block), true
}

// trim moves the head past records that are not needed, while more than keep bytes are used.
func (j *Journal) trim(keep uint64) {
	for again := len(j.kept); again > 0 && j.ring.tail-j.ring.head > keep; again-- {
		k := j.kept[0]
		if !k.log.ended && k.number > k.log.acked {
			return
		}
		j.kept = j.kept[1:]
		k.log.kept--
		if k.number == 0 && !k.log.ended {
			j.begin(k.log)
		}
		if k.log.ended && k.log.kept == 0 {
			delete(j.logs, k.log.id)
		}
		next := j.ring.tail
		if len(j.kept) > 0 {
			next = j.kept[0].position
		}
		j.ring.setHead(next)
	}
}
