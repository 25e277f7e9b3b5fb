package client

import (
	"context"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// What is made in another partition than its directory takes its number along (made.go of package meta), so that the two partitions
// need not wait for each other. A client has some numbers of each partition in stock. One that was sent
// is never sent again in another update.

// reserveAtOnce is how many numbers are asked for when none is left.
const reserveAtOnce = 64

// A partition that this client cannot reach may be in reach of the one that is to name the inode: numbers are not waited for long,
// and after a failure not asked for during a while.
const (
	reservePatience = 2 * time.Second
	reserveAgain    = 10 * time.Second
)

// numbers are what this client has reserved in a partition.
type numbers struct {
	filling chan struct{} // holds one token while somebody reserves more

	mu   sync.Mutex
	next posix.Ino // GUARDED_BY mu
	left uint64    // GUARDED_BY mu; from next on
	wait time.Time // GUARDED_BY mu; do not ask for more before
}

// take gives a number, 0 if none is there, and then whether to ask for some.
func (n *numbers) take() (ino posix.Ino, ask bool) {
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

// drain gives all that is left.
func (n *numbers) drain() (first posix.Ino, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	count, n.left = n.left, 0
	return n.next, count
}

// number gives a number for a new inode in p, 0 if none can be had: then the partitions have to vote.
func (c *Client) number(ctx context.Context, p *partition) posix.Ino {
	if ino, ask := p.numbers.take(); !ask {
		return ino
	}
	ctx, cancel := context.WithTimeout(ctx, reservePatience)
	defer cancel()
	select {
	case p.numbers.filling <- struct{}{}:
		defer func() { <-p.numbers.filling }()
	case <-ctx.Done():
		return 0
	}
	if ino, ask := p.numbers.take(); !ask {
		return ino
	}
	r, err := c.applyIn(ctx, parties{ask: p}, &meta.Command{Op: meta.OpReserve, Length: reserveAtOnce})
	if err != nil {
		c.events.logger.Debug("no numbers for new inodes could be reserved", "partition", p.id, "error", err)
		p.numbers.failed()
		return 0
	}
	p.numbers.put(posix.Ino(r.Number), reserveAtOnce)
	ino, _ := p.numbers.take()
	return ino
}

// returnNumbers gives back what was never sent, before the session ends.
func (c *Client) returnNumbers(ctx context.Context, p *partition, s *session) {
	first, count := p.numbers.drain()
	if count == 0 {
		return
	}
	seq, err := s.begin(ctx)
	if err == nil {
		defer s.finish(seq)
		back := meta.Command{Op: meta.OpReserve, Child: first, Length: count}
		_, _, err = c.exchange(ctx, p, ordering, func() ask.Request {
			return ask.Request{
				Kind: ask.Update, Session: s.id, Seq: seq, Done: s.finished(), Vector: c.vector.snapshot(), Command: back.Append(nil),
			}
		})
	}
	if err != nil {
		c.events.logger.Debug("numbers could not be given back: nobody will use them", "partition", p.id, "count", count, "error", err)
	}
}
