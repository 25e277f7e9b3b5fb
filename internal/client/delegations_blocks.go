package client

import (
	"context"
	"errors"
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
	// maxWaiting is the maximum of the bytes of these blocks. Beyond it, a write stores its blocks before it
	// is appended to the log.
	maxWaiting = 8 << 20
	// putsAtATime is the maximum number of concurrent puts of these blocks. Servers make the blocks of
	// several puts durable together.
	putsAtATime = 8
	// maxPut and maxPutBytes are the maximum number and size of the blocks of one put. Blocks are collected
	// for half of the time for which their log collects operations, or until they fill a put. So they are
	// usually stored when the batch of their log is due.
	maxPut      = 32
	maxPutBytes = 256 << 10
	// putLater is the time after the loss of a block in which writes store their blocks before they are
	// appended to the log. So the writes themselves report errors.
	putLater = time.Minute
)

// waitingBlocks has the blocks of writes in logs that are not stored yet. The logs do not send these writes
// (delegate.Log.Withhold), and the journal contains the blocks.
type waitingBlocks struct {
	d      *delegations
	put    func(context.Context, block.Block) error
	putAll func(context.Context, []block.Block) error // see block.Batcher
	hurry  chan struct{}                              // has room for one token: the queue is due
	alone  chan struct{}                              // holds a token for each put of one block

	mu        sync.Mutex                      // locked after delegations.mu
	blocks    map[posix.BlockID]*waitingBlock // GUARDED_BY mu
	queue     []*waitingBlock                 // GUARDED_BY mu; the blocks that no goroutine stores yet, the oldest first
	queued    int                             // GUARDED_BY mu; bytes of the blocks in queue
	urgent    bool                            // GUARDED_BY mu; a caller waits for a log: the queue is due
	bytes     int                             // GUARDED_BY mu; bytes of all blocks
	storing   int                             // GUARDED_BY mu; number of goroutines in store
	putting   int                             // GUARDED_BY mu; number of these goroutines with a put; the others collect
	notBefore time.Time                       // GUARDED_BY mu; before this time no further block may wait
}

// waitingBlock is a block with the write that names it.
type waitingBlock struct {
	block.Block
	log    *logOf
	number uint64
	due    time.Time // when the block must be stored
}

func newWaitingBlocks(d *delegations) *waitingBlocks {
	return &waitingBlocks{
		d: d, hurry: make(chan struct{}, 1), alone: make(chan struct{}, putsAtATime), blocks: map[posix.BlockID]*waitingBlock{},
	}
}

// takes reports whether a block of n bytes may wait.
func (w *waitingBlocks) takes(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes+n <= maxWaiting && time.Now().After(w.notBefore)
}

// size returns the number of bytes of all waiting blocks.
func (w *waitingBlocks) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// get returns the content of a waiting block; nil: there is no such block.
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

// add adds a block, and reports whether the caller must start another goroutine for store. If all these
// goroutines have a put under way, another one is needed to collect blocks: a put to one partition that hangs
// must not delay blocks of other partitions.
func (w *waitingBlocks) add(b *waitingBlock) (another bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocks[b.ID] = b
	w.bytes += len(b.Data)
	w.queue = append(w.queue, b)
	w.queued += len(b.Data)
	enough := w.isEnough()
	if enough {
		signal(w.hurry)
	}
	if another = (enough || w.storing == w.putting) && w.storing < putsAtATime; another {
		w.storing++
	}
	return another
}

// isEnough reports whether the queue fills a put. The caller holds mu.
func (w *waitingBlocks) isEnough() bool { return len(w.queue) >= maxPut || w.queued >= maxPutBytes }

// hasten makes the queue due, because a caller waits for a log.
func (w *waitingBlocks) hasten() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		w.urgent = true
		signal(w.hurry)
	}
}

// next takes the oldest blocks of one partition from the queue, for one put. If no block is due, it returns
// the time to wait. If the queue is empty, it returns neither, and the goroutine of store must end.
func (w *waitingBlocks) next() (some []*waitingBlock, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && w.blocks[w.queue[0].ID] != w.queue[0] {
		w.pop() // its log has ended
	}
	if len(w.queue) == 0 {
		w.queue, w.urgent = nil, false
		w.storing--
		return nil, 0
	}
	if wait = time.Until(w.queue[0].due); wait > 0 && !w.urgent && !w.isEnough() {
		return nil, wait
	}
	size := 0
	for len(w.queue) > 0 && len(some) < maxPut {
		b := w.queue[0]
		if len(some) > 0 && (size+len(b.Data) > maxPutBytes || b.ID.Partition() != some[0].ID.Partition()) {
			break
		}
		w.pop()
		if w.blocks[b.ID] == b {
			some = append(some, b)
			size += len(b.Data)
		}
	}
	w.urgent = w.urgent && len(w.queue) > 0
	w.putting++
	return some, 0
}

// ended records the end of a put. The goroutine of the put then calls next again.
func (w *waitingBlocks) ended() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putting--
}

// pop removes the oldest block of the queue. The caller holds mu.
func (w *waitingBlocks) pop() {
	w.queued -= len(w.queue[0].Data)
	w.queue[0] = nil
	w.queue = w.queue[1:]
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

// pause prevents that further blocks wait for putLater, after the loss of a block.
func (w *waitingBlocks) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notBefore = time.Now().Add(putLater)
}

// takesFor reports whether a block of n bytes of a file may wait in a log. The result can change at any time.
func (w *waitingBlocks) takesFor(ino posix.Ino, n int) bool {
	return w != nil && w.d.covers(ino) && w.takes(n)
}

// write executes a write of one block in a log before the block is stored. If done is false, the caller must
// store the block first.
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

// keep adds the block of an operation to the waiting blocks. The log withholds the operation until the block
// is stored. The caller holds delegations.mu.
func (w *waitingBlocks) keep(l *logOf, number uint64, b block.Block) {
	l.log.Withhold(number)
	if w.add(&waitingBlock{b, l, number, time.Now().Add(l.pace.delay() / 2)}) {
		w.d.router.Go(w.store)
	}
}

// store stores blocks until none is left.
func (w *waitingBlocks) store(life context.Context) {
	for {
		some, wait := w.next()
		switch {
		case wait > 0:
			w.collect(life, wait)
		case len(some) == 0:
			return
		case len(some) == 1:
			w.storeEach(life, some)
			w.ended()
		default:
			w.storeAll(life, some)
			w.ended()
		}
	}
}

// collect waits until the queue may be due.
func (w *waitingBlocks) collect(life context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.hurry:
	case <-life.Done():
		w.hasten() // next then returns the remaining blocks, whose puts fail because life has ended
	}
}

// storeAll stores blocks with one put. If that is not supported or fails, it stores each block with its own
// put; after a failure, all attempts together have the time limit of one operation.
func (w *waitingBlocks) storeAll(life context.Context, some []*waitingBlock) {
	blocks := make([]block.Block, len(some))
	for i, b := range some {
		blocks[i] = b.Block
	}
	ctx, cancel := w.d.router.Operation(life)
	defer cancel()
	switch err := w.putAll(ctx, blocks); {
	case err == nil:
		w.stored(nil, some...)
	case errors.Is(err, errors.ErrUnsupported):
		w.storeEach(life, some)
	default:
		w.storeEach(ctx, some)
	}
}

// storeEach stores each block with its own put. ctx is the context of the client, or of one operation.
func (w *waitingBlocks) storeEach(ctx context.Context, some []*waitingBlock) {
	var each sync.WaitGroup
	for _, b := range some {
		w.alone <- struct{}{}
		each.Go(func() {
			defer func() { <-w.alone }()
			within, cancel := w.d.router.Operation(ctx)
			defer cancel()
			if err := w.put(within, b.Block); err == nil || !errors.Is(ctx.Err(), context.Canceled) {
				w.stored(err, b) // otherwise the client ends, and the block is in the journal, or its log is lost
			}
		})
	}
	each.Wait()
}

// stored records the outcome of the put of blocks.
func (w *waitingBlocks) stored(err error, some ...*waitingBlock) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	for _, b := range some {
		switch {
		case !w.drop(b.ID): // the log has ended
		case err != nil:
			w.lost(b, err)
		default:
			b.log.log.Stored(b.number)
			signal(b.log.work)
		}
	}
}

// lost records that a block cannot be stored. The caller holds delegations.mu.
func (w *waitingBlocks) lost(b *waitingBlock, err error) {
	d, l := w.d, b.log
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
