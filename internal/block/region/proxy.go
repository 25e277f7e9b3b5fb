package region

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A server that has not stored its copy after CallTimeout/slowPart is late: the next server stands in for it.
// If both store the block, the server that does not own the block drops its copy later, when all owners have
// good copies (handback.go).
const slowPart = 8

// put makes the copies of a block in parallel: on its owners, and for each owner that fails or is slow on the
// next server in the order of the ring. It reports whether all copies are on disk.
func (n *Node) put(ctx context.Context, b *block.Block) (onDisk bool, err error) {
	if err := verify(b); err != nil {
		return false, err
	}
	v := n.view.Load()
	storing, cancel := context.WithCancel(ctx)
	defer cancel()
	servers := n.lastDown(n.peers.order(v.ring.Walk(b.ID)))
	p := placement{
		node: n, ctx: storing, servers: servers, events: make(chan placed, 2*len(servers)),
		frame: newSharedRequest(encodeStore(b)),
	}
	p.run(v.copies)
	p.frame.release(nil)
	if p.copies < v.copies {
		return false, fmt.Errorf("put block %v: %d of %d copies: %w", b.ID, p.copies, v.copies, p.failure(ctx))
	}
	return p.onDisk == p.copies, nil
}

// lastDown moves the servers that are down to the end.
func (n *Node) lastDown(servers []multicast.ProcessID) []multicast.ProcessID {
	down := n.down()
	if len(down) == 0 {
		return servers
	}
	late := func(p multicast.ProcessID) int {
		if slices.Contains(down, p) {
			return 1
		}
		return 0
	}
	servers = slices.Clone(servers)
	slices.SortStableFunc(servers, func(a, b multicast.ProcessID) int { return late(a) - late(b) })
	return servers
}

// placement is the state of one put. Only the goroutine that runs it touches its fields.
type placement struct {
	node    *Node
	ctx     context.Context
	frame   *sharedRequest        // opStore
	servers []multicast.ProcessID // not tried yet
	events  chan placed           // room for two events of each server
	copies  int                   // number of copies that are stored
	onDisk  int                   // number of copies that are on disk
	errs    []error               // the errors of the servers that failed
}

// placed is an event of one server: it is late, or its call has ended with err.
type placed struct {
	late    bool // the call has not ended yet
	wasLate bool // at the end of the call: a late event came before
	onDisk  bool // the copy survives a loss of power
	err     error
}

// run places copies until there are enough or no server is left. A conflict ends it: no server may have two
// blocks with one id.
func (p *placement) run(copies int) {
	pending := 0
	for range copies {
		pending += p.next()
	}
	for pending > 0 && p.copies < copies {
		e := <-p.events
		switch {
		case e.late:
			pending += p.next()
			continue
		case e.err == nil:
			p.copies++
			if e.onDisk {
				p.onDisk++
			}
		default:
			p.errs = append(p.errs, e.err)
			if errors.Is(e.err, block.ErrConflict) {
				p.servers = nil
			}
			if !e.wasLate {
				pending += p.next()
			}
		}
		pending--
	}
}

// next begins to store a copy on the next server, and returns 1; 0 if there is none.
func (p *placement) next() int {
	if len(p.servers) == 0 || p.ctx.Err() != nil {
		return 0
	}
	server := p.servers[0]
	p.servers = p.servers[1:]
	n, ctx, events, frame := p.node, p.ctx, p.events, p.frame
	frame.retain()
	n.stragglers.Go(func() {
		timer := time.AfterFunc(n.config.CallTimeout/slowPart, func() { events <- placed{late: true} })
		onDisk, err := n.storeAt(ctx, server, frame.bytes)
		frame.release(err)
		wasLate := !timer.Stop()
		if wasLate && ctx.Err() != nil {
			n.peers.recordAbandoned(server)
		}
		events <- placed{err: err, wasLate: wasLate, onDisk: onDisk}
	})
	return 1
}

// storeAt stores the block of an opStore on a server, and reports whether this copy is on disk.
func (n *Node) storeAt(ctx context.Context, server multicast.ProcessID, frame []byte) (onDisk bool, err error) {
	if server == n.config.Self {
		return n.config.Disk.Durable(), n.peers.try(ctx, server, func(ctx context.Context) error {
			q, err := decodeRequest(frame)
			if err != nil {
				return err
			}
			return n.take(ctx, q.block)
		})
	}
	reply, err := n.peers.call(ctx, server, frame)
	return isOnDisk(reply), err
}

// failure returns the most informative error of a put that stored too few copies.
func (p *placement) failure(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, kind := range []error{block.ErrConflict, block.ErrNoSpace} {
		if i := slices.IndexFunc(p.errs, func(err error) bool { return errors.Is(err, kind) }); i >= 0 {
			return p.errs[i]
		}
	}
	return fmt.Errorf("%w: %w", block.ErrUnavailable, errors.Join(p.errs...))
}

// replace replaces bad copies with a good one: a put to a server with a bad copy replaces it (B2 of package
// block). Errors are only logged: the next get or scrub tries again.
func (n *Node) replace(ctx context.Context, id block.ID, reply []byte, bad []multicast.ProcessID) {
	if len(bad) == 0 {
		return
	}
	b, err := decodeBlock(id, reply)
	if err != nil {
		return // the copy went bad in memory: its receiver will find that
	}
	frame := encodeStore(&b)
	for _, server := range bad {
		if _, err := n.storeAt(ctx, server, frame); err != nil {
			n.config.Log.Warn("cannot replace corrupt block", "block", id, "server", server, "error", err)
		} else {
			n.counts.replaced.Add(1)
			n.config.Log.Info("replaced corrupt block", "block", id, "server", server)
		}
	}
}

// delete removes all copies of blocks from all servers: a server that does not own a block may have a copy,
// because it has stood in for an owner, or because it is leaving.
func (n *Node) delete(ctx context.Context, ids []block.ID) error {
	var g errgroup.Group
	frame := encodeDelete(opDrop, ids)
	down := n.down()
	for _, server := range n.view.Load().servers {
		g.Go(func() error {
			switch {
			case server == n.config.Self:
				return n.config.Disk.Delete(ctx, ids)
			case slices.Contains(down, server): // its copies are collected as orphans when it is back (B6)
				return fmt.Errorf("storage server %d is down: %w", server, block.ErrUnavailable)
			}
			_, err := n.peers.call(ctx, server, frame)
			return err
		})
	}
	return g.Wait()
}

// stragglers are the goroutines that may continue after the answer to the request that started them. The
// answer cancels their context, and they end when the disk or the Caller returns.
type stragglers struct {
	mu      sync.Mutex
	running int           // GUARDED_BY mu
	none    chan struct{} // GUARDED_BY mu; closed when running becomes 0, if a call waits
}

// Go runs f in a goroutine.
func (s *stragglers) Go(f func()) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	go func() {
		defer s.done()
		f()
	}()
}

func (s *stragglers) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

// Wait returns when no goroutine runs.
func (s *stragglers) Wait() {
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return
	}
	if s.none == nil {
		s.none = make(chan struct{})
	}
	none := s.none
	s.mu.Unlock()
	<-none
}
