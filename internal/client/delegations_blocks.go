package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of blocks that wait in logs.
const (
	// maxWaiting bounds these blocks, in bytes: a write beyond it stores its blocks before it is appended.
	maxWaiting = 8 << 20
	// putsAtATime bounds the blocks of logs that are being stored. Servers make several durable at once.
	putsAtATime = 8
	// putLater is the time after the loss of a block in which writes store their blocks before they are
	// appended, and so report errors themselves.
	putLater = time.Minute
)

// waitingBlocks are the blocks of writes in logs that are not stored yet. The log withholds these writes
// (delegate.Log.Withhold), and the journal has the blocks.
type waitingBlocks struct {
	d   *delegations
	put func(context.Context, block.Block) error

	mu        sync.Mutex                      // is taken behind delegations.mu
	blocks    map[posix.BlockID]*waitingBlock // GUARDED_BY mu
	queue     []*waitingBlock                 // GUARDED_BY mu; those that nobody stores yet, the oldest first
	bytes     int                             // GUARDED_BY mu; of blocks
	putting   int                             // GUARDED_BY mu; goroutines that store blocks
	notBefore time.Time                       // GUARDED_BY mu; no further block waits before
}

// waitingBlock is a block with the write that names it.
type waitingBlock struct {
	block.Block
	log    *logOf
	number uint64
}

func newWaitingBlocks(d *delegations) *waitingBlocks {
	return &waitingBlocks{d: d, blocks: map[posix.BlockID]*waitingBlock{}}
}

// takes reports whether a block of n bytes may wait.
func (w *waitingBlocks) takes(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes+n <= maxWaiting && time.Now().After(w.notBefore)
}

// size returns the bytes of the blocks.
func (w *waitingBlocks) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// get returns the content of a block that waits; nil: it does not.
func (w *waitingBlocks) get(id posix.BlockID) []byte {
	if w == nil || w.d.isIdle() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.blocks[id]; b != nil {
		return b.Data
	}
	return nil
}

// add adds a block, and reports whether another goroutine is to store blocks.
func (w *waitingBlocks) add(b *waitingBlock) (another bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocks[b.ID] = b
	w.bytes += len(b.Data)
	w.queue = append(w.queue, b)
	if another = w.putting < putsAtATime; another {
		w.putting++
	}
	return another
}

// next returns the oldest block that nobody stores; nil: there is none, and the goroutine ends.
func (w *waitingBlocks) next() *waitingBlock {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		b := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		if w.blocks[b.ID] == b {
			return b
		}
	}
	w.queue = nil
	w.putting--
	return nil
}

// drop removes a block, and reports whether it was there.
func (w *waitingBlocks) drop(id posix.BlockID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.blocks[id]
	if b == nil {
		return false
	}
	delete(w.blocks, id)
	w.bytes -= len(b.Data)
	return true
}

// pause notes that a block is lost.
func (w *waitingBlocks) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notBefore = time.Now().Add(putLater)
}

// takesFor reports whether a block of n bytes of a file may wait in a log. It may become false at any time.
func (w *waitingBlocks) takesFor(ino posix.Ino, n int) bool {
	return w != nil && w.d.covers(ino) && w.takes(n)
}

// write executes a write of one block, which is not stored yet, in a log. done is false if the caller is
// to store the block first.
func (w *waitingBlocks) write(ctx context.Context, cmd *meta.Command, b *block.Block) (a route.Answer, done bool, err error) {
	d := w.d
	if a, repeated := d.repeated(ctx, cmd); repeated {
		return a, true, nil
	}
	if !d.isOf(cmd.Ino, b.ID.Session()) {
		return a, false, nil
	}
	return d.update(ctx, cmd, b)
}

// keep keeps a block until it is stored, and withholds the write that names it. The caller holds
// delegations.mu.
func (w *waitingBlocks) keep(l *logOf, number uint64, b block.Block) {
	l.log.Withhold(number)
	if w.add(&waitingBlock{b, l, number}) {
		w.d.router.Go(w.store)
	}
}

// store stores blocks until none is left.
func (w *waitingBlocks) store(life context.Context) {
	for b := w.next(); b != nil; b = w.next() {
		ctx, cancel := w.d.router.Operation(life)
		err := w.put(ctx, b.Block)
		cancel()
		if err != nil && life.Err() != nil {
			continue // the journal has it, or the log is lost
		}
		w.stored(b, err)
	}
}

// stored records the outcome of the put of a block.
func (w *waitingBlocks) stored(b *waitingBlock, err error) {
	d := w.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if !w.drop(b.ID) {
		return // the log has ended
	}
	l := b.log
	if err == nil {
		l.log.Stored(b.number)
		signal(l.work)
		return
	}
	w.pause()
	lost, dirs, ok := l.log.Void(b.number)
	if !ok {
		return
	}
	d.router.DropBlock(b.ID)
	d.counts.lost.Add(1)
	ops := []delegation.Op{lost}
	x := Loss{When: time.Now(), Partition: l.id, Changes: 1, Reason: fmt.Sprintf("its block could not be stored: %v", err), Names: describe(ops)}
	d.losses.add(x, ops)
	d.cfg.Logger.Error("content of a closed file is lost: its block could not be stored; fsync and close of the file, if it is open, and globalfs sync, report EIO: check the storage servers and their free space",
		"partition", l.id, "inode", lost.Command.Ino, "bytes", len(b.Data), "error", err)
	d.giveBack(l, dirs)
}
