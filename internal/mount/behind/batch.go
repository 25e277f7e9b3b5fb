package behind

import (
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

// Limits of a batch.
const (
	blockSize = posix.MaxBlock
	// maxBlocks bounds the number of full blocks of a batch. Larger batches need fewer commands and more
	// memory.
	maxBlocks = 8
)

// Batch is content that one command writes.
type Batch struct {
	Ino       posix.Ino
	Cred      posix.Cred
	Offset    uint64 // with Append: the expected end of the file
	Append    bool
	KillSetID bool    // the batch has a write by a user without CAP_FSETID
	OnDisk    bool    // a caller waits until the disks of servers have the batch
	Parts     []*Part // in order; each at most one block
	// Set names the attributes to set after the content. The values are those of Attr, and the user is Cred.
	Set  uint32
	Attr posix.Attr
}

// Part is content that becomes one block.
type Part struct {
	Data   block.Draft
	Staged Staged // nil: the content is not stored yet
}

// Staged is content that is stored as a block and belongs to no file yet.
type Staged interface {
	// Drop declares that no write will name the block.
	Drop()
}

// run is a batch that is being collected or ordered.
type run struct {
	Batch
	far     bool // of the budget
	length  int
	timer   *time.Timer
	staging sync.WaitGroup // parts that are being stored
	done    chan struct{}  // closed when the batch was ordered, or has failed

	mu     sync.Mutex
	failed error // GUARDED_BY mu; reason why a part was not stored, or the batch not ordered
}

func newRun(w *Write) *run {
	return &run{
		Batch: Batch{Ino: w.Ino, Cred: w.Cred, Offset: w.Offset, Append: w.Append},
		far:   w.far,
		done:  make(chan struct{}),
	}
}

// end returns the offset after the content.
func (r *run) end() uint64 { return r.Offset + uint64(r.length) }

// takes reports whether a write can be added to the batch.
func (r *run) takes(w *Write) bool {
	switch {
	case r == nil || r.Cred != w.Cred || r.Append != w.Append || r.far != w.far || r.Set != 0:
		return false
	case w.Append: // a write with Append is in one command
		return r.length+len(w.Data) <= maxBlocks*blockSize
	}
	return w.Offset == r.end() || r.overwrites(w)
}

// overwrites reports whether a write changes only content of the last part, while that part is not being
// stored.
func (r *run) overwrites(w *Write) bool {
	if r.Append || len(r.Parts) == 0 {
		return false
	}
	last := r.Parts[len(r.Parts)-1]
	from := r.end() - uint64(last.Data.Len())
	return !r.isFull(last) && w.Offset >= from && w.Offset+uint64(len(w.Data)) <= r.end()
}

// add adds the content of a write, and returns the growth of the batch in bytes. It calls stage for each part
// that has become full.
func (r *run) add(w *Write, stage func(*run, *Part)) (grown int) {
	r.KillSetID = r.KillSetID || w.KillSetID
	data := w.Data
	if w.Offset != r.end() && r.overwrites(w) {
		last := r.Parts[len(r.Parts)-1].Data.Data()
		copy(last[w.Offset-(r.end()-uint64(len(last))):], data)
		return 0
	}
	for len(data) > 0 {
		room := r.room()
		if room == 0 {
			r.Parts = append(r.Parts, &Part{})
			room = r.room()
			if r.length >= room/2 && len(data) < room { // the writes are sequential and will probably fill the block
				r.Parts[len(r.Parts)-1].Data.Reserve(room)
			}
		}
		n := min(room, len(data))
		last := r.Parts[len(r.Parts)-1]
		last.Data.Append(data[:n])
		r.length += n
		data = data[n:]
		if r.isFull(last) {
			stage(r, last)
		}
	}
	return len(w.Data)
}

// room returns the number of free bytes in the last part.
func (r *run) room() int {
	if len(r.Parts) == 0 {
		return 0
	}
	return r.size(len(r.Parts)-1) - r.Parts[len(r.Parts)-1].Data.Len()
}

// size returns the maximum length of a part, so that blocks end at multiples of the block size in the file.
func (r *run) size(part int) int {
	if part > 0 || r.Append {
		return blockSize
	}
	return blockSize - int(r.Offset%blockSize)
}

// isFull reports whether the last part is full.
func (r *run) isFull(last *Part) bool { return last.Data.Len() == r.size(len(r.Parts)-1) }

// isLong reports whether the batch must be ordered now, because a longer one would delay others.
func (r *run) isLong() bool { return r.length >= maxBlocks*blockSize }

// fail records the reason why a part was not stored, or the batch not ordered; nil is no failure.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// drop abandons the blocks that were stored.
func (r *run) drop() {
	for i := range r.Parts {
		if s := r.Parts[i].Staged; s != nil {
			s.Drop()
		}
	}
}
