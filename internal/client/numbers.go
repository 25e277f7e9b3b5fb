package client

import (
	"context"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// What is made in another partition than its directory takes its number along (made.go of package meta), so
// that the two partitions need not wait for each other. A client has some numbers of each partition in stock.
// A number that was sent is never sent again in another update.

// reserveAtOnce is how many numbers are reserved when none is left.
const reserveAtOnce = 64

// A partition that this client cannot reach may be in reach of the one that is to name the inode: numbers are
// not waited for long, and after a failure not reserved during a while.
const (
	reservePatience = 2 * time.Second
	reserveAgain    = 10 * time.Second
)

// stock is the numbers for new inodes that this client has reserved.
type stock struct {
	common
	partitions []numbers // by id
}

func newStock(c common) *stock {
	s := &stock{common: c, partitions: make([]numbers, c.router.Partitions())}
	for i := range s.partitions {
		s.partitions[i].filling = make(chan struct{}, 1)
	}
	return s
}

// numbers are those of one partition.
type numbers struct {
	filling chan struct{} // holds one token while more are being reserved

	mu   sync.Mutex
	next posix.Ino // GUARDED_BY mu
	left uint64    // GUARDED_BY mu; from next on
	wait time.Time // GUARDED_BY mu; do not reserve more before
}

// take returns a number, 0 if none is there, and then whether to reserve some.
func (n *numbers) take() (ino posix.Ino, reserve bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == 0 {
		return 0, !time.Now().Before(n.wait)
	}
	n.next++
	n.left--
	return n.next - 1, false
}

func (n *numbers) put(first posix.Ino, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next, n.left = first, count
}

func (n *numbers) failed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wait = time.Now().Add(reserveAgain)
}

// drain returns all that is left.
func (n *numbers) drain() (first posix.Ino, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	count, n.left = n.left, 0
	return n.next, count
}

// number returns a number for a new inode in a partition, 0 if none can be had: then the partitions have to
// vote.
func (s *stock) number(ctx context.Context, partition uint16) posix.Ino {
	n := &s.partitions[partition]
	if ino, reserve := n.take(); !reserve {
		return ino
	}
	ctx, cancel := context.WithTimeout(ctx, reservePatience)
	defer cancel()
	select {
	case n.filling <- struct{}{}:
		defer func() { <-n.filling }()
	case <-ctx.Done():
		return 0
	}
	if ino, reserve := n.take(); !reserve {
		return ino
	}
	a, err := s.router.Update(ctx, &meta.Command{Op: meta.OpReserve, Length: reserveAtOnce}, route.Partition(partition))
	if err != nil {
		s.notices.Debug("no numbers for new inodes could be reserved", "partition", partition, "error", err)
		n.failed()
		return 0
	}
	n.put(posix.Ino(a.Number), reserveAtOnce)
	ino, _ := n.take()
	return ino
}

// giveBack returns the numbers of a partition that were never sent, before the session there ends.
func (s *stock) giveBack(ctx context.Context, partition uint16) {
	first, count := s.partitions[partition].drain()
	if count == 0 {
		return
	}
	session, err := s.router.Session(ctx, partition)
	if err == nil {
		back := meta.Command{Op: meta.OpReserve, Child: first, Length: count}
		_, err = s.router.Update(ctx, &back, route.Partition(partition).Under(session))
	}
	if err != nil {
		s.notices.Debug("numbers could not be given back: they stay unused", "partition", partition, "count", count, "error", err)
	}
}

// left returns the numbers of a partition.
func (s *stock) left(partition uint16) (first posix.Ino, count uint64) {
	n := &s.partitions[partition]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next, n.left
}

// clear forgets all numbers: another client may have used them.
func (s *stock) clear() {
	for i := range s.partitions {
		s.partitions[i].drain()
	}
}

// adopt goes on with a state, nil: there is none. The numbers of one that may have gone on are left out.
func (s *stock) adopt(from *State) {
	if from == nil || from.Running {
		return
	}
	for i := range from.Partitions {
		of := &from.Partitions[i]
		s.partitions[of.ID].put(of.Next, of.Left)
	}
}
