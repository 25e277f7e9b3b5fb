package region

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// quietSweeps is the number of sweeps in a row without a find, by servers that all know the same members,
// after which a block is absent (M4). One sweep is not enough: the block may move from a server that is asked
// later to one that was asked before.
const quietSweeps = 3

// maxSweeps bounds the sweeps of one search while members change.
const maxSweeps = 10

// search is one search for a block in the region.
type search struct {
	node    *Node
	id      block.ID
	bad     []multicast.ProcessID         // their copies are corrupt
	missing []multicast.ProcessID         // they do not have it
	failed  map[multicast.ProcessID]error // they did not answer
}

// find returns the reply with a good copy: that of this server if it owns the block, otherwise of the first
// server that answers. It replaces the bad copies that it finds, and records owners without a copy for
// repair.
func (n *Node) find(ctx context.Context, id block.ID) ([]byte, error) {
	s := search{node: n, id: id}
	reply, err := s.find(ctx)
	if err == nil {
		n.replace(ctx, id, reply, s.bad)
		n.noteMissing(id, s.missing)
	}
	return reply, err
}

// find returns the reply with a good copy.
func (s *search) find(ctx context.Context) ([]byte, error) {
	reply := s.ask(ctx, s.node.nearest(s.id), false)
	if reply == nil && ctx.Err() == nil {
		reply = s.sweep(ctx)
	}
	switch {
	case reply != nil:
		return reply, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, s.failure()
}

// nearest returns the servers that are likely to have a block: those that keep it and those that stand in for
// them, with the suspected ones last. This server is first if it keeps the block, since its disk is near.
func (n *Node) nearest(id block.ID) []multicast.ProcessID {
	v := n.view.Load()
	likely := n.peers.order(v.ring.OwnersAmong(id, ring.Placed, n.down()))
	at := slices.Index(likely, n.config.Self)
	if at <= 0 || at >= v.copies {
		return likely
	}
	return slices.Concat(likely[at:at+1], likely[:at], likely[at+1:])
}

// answer is the answer of one server.
type answer struct {
	server multicast.ProcessID
	reply  []byte
	err    error
}

// ask returns the first good copy of servers, nil if there is none. It asks one server, and the next one when
// that has no copy or takes longer than usual. When an answer has come, ask cancels the other requests and
// does not wait for their ends. When all servers have been asked and the last one takes longer than usual,
// ask gives up, unless patient is set.
func (s *search) ask(ctx context.Context, servers []multicast.ProcessID, patient bool) []byte {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(servers))
	late := time.NewTimer(time.Hour)
	defer late.Stop()
	pending := 0
	for {
		if pending == 0 && len(servers) == 0 {
			return nil
		}
		next := pending == 0
		if !next {
			select {
			case a := <-answers:
				pending--
				if a.err == nil {
					return a.reply
				}
				s.note(a)
				next = true
			case <-late.C:
				next = true
				if len(servers) == 0 && !patient {
					return nil
				}
			case <-ctx.Done():
				return nil
			}
		}
		if next && len(servers) > 0 {
			late.Reset(s.start(asking, servers[0], answers))
			servers, pending = servers[1:], pending+1
		}
	}
}

// start asks one server, and returns its usual time.
func (s *search) start(ctx context.Context, server multicast.ProcessID, answers chan<- answer) time.Duration {
	n, id := s.node, s.id // the search may have ended before the answer comes
	n.stragglers.Go(func() {
		begin := time.Now()
		reply, err := n.copyOf(ctx, id, server)
		if ctx.Err() != nil {
			n.peers.recordOvertaken(server, time.Since(begin))
		} else if err == nil {
			n.peers.recordTime(server, time.Since(begin))
		}
		answers <- answer{server, reply, err}
	})
	return n.peers.usual(server)
}

// copyOf returns the reply with the verified copy of one server.
func (n *Node) copyOf(ctx context.Context, id block.ID, server multicast.ProcessID) (reply []byte, err error) {
	if server == n.config.Self {
		err = n.peers.try(ctx, server, func(ctx context.Context) (err error) {
			reply, err = n.fetch(ctx, id)
			return err
		})
		return reply, err
	}
	if reply, err = n.peers.call(ctx, server, encodeGet(opFetch, id)); err == nil {
		_, err = decodeBlock(id, reply)
	}
	return reply, err
}

// note records the reason why a server did not return a good copy.
func (s *search) note(a answer) {
	switch {
	case errors.Is(a.err, block.ErrCorrupt):
		s.node.config.Log.Warn("corrupt block", "block", s.id, "server", a.server, "error", a.err)
		s.bad = append(s.bad, a.server)
	case errors.Is(a.err, block.ErrNotFound):
		s.missing = append(s.missing, a.server)
	default:
		s.fail(a.server, a.err)
	}
}

func (s *search) fail(server multicast.ProcessID, err error) {
	if s.failed == nil {
		s.failed = make(map[multicast.ProcessID]error)
	}
	s.failed[server] = err
}

// sweep asks all servers for the block, repeatedly, until one returns it. It returns nil if none does. Then
// the block is absent if failed is empty.
func (s *search) sweep(ctx context.Context) []byte {
	clear(s.failed)
	quiet := 0
	for range maxSweeps {
		v := s.node.view.Load()
		holders, stale := s.holders(ctx, v)
		if len(holders) > 0 {
			if reply := s.ask(ctx, holders, true); reply != nil || ctx.Err() != nil {
				return reply
			}
			continue
		}
		for _, server := range stale {
			if err := s.node.exchange(ctx, server); err != nil {
				s.fail(server, err)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if quiet++; len(stale) > 0 || s.node.view.Load() != v {
			quiet = 0
		}
		if quiet == quietSweeps {
			return nil
		}
	}
	s.fail(s.node.config.Self, errStale)
	return nil
}

// holders asks all servers whether they have a copy of the block, except those that failed or have a bad one.
// It returns the first server that has a copy, or else the servers that know other members (stale).
func (s *search) holders(ctx context.Context, v *view) (holders, stale []multicast.ProcessID) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	n, id := s.node, s.id
	servers := slices.DeleteFunc(v.order(id), func(p multicast.ProcessID) bool {
		return s.failed[p] != nil || slices.Contains(s.bad, p)
	})
	answers := make(chan answer, len(servers))
	for _, server := range servers {
		n.stragglers.Go(func() {
			err := n.has(asking, v, server, id)
			answers <- answer{server: server, err: err}
		})
	}
	for range servers {
		a := <-answers
		switch {
		case a.err == nil:
			return []multicast.ProcessID{a.server}, nil
		case errors.Is(a.err, errStale):
			stale = append(stale, a.server)
		case !errors.Is(a.err, block.ErrNotFound):
			s.fail(a.server, a.err)
		}
	}
	return nil, stale
}

// has returns nil if a server has a copy, good or bad, and ErrNotFound if it has none.
func (n *Node) has(ctx context.Context, v *view, server multicast.ProcessID, id block.ID) error {
	var have []bool
	var err error
	if server == n.config.Self {
		err = n.peers.try(ctx, server, func(ctx context.Context) error {
			sizes, err := n.config.Disk.Sizes(ctx, []block.ID{id})
			have = []bool{err == nil && sizes[0] > 0}
			return err
		})
	} else {
		var reply []byte
		if reply, err = n.peers.call(ctx, server, encodeHave(v.stamp, false, []block.ID{id})); err == nil {
			have, err = decodeHave(1, reply)
		}
	}
	if err == nil && !have[0] {
		return block.ErrNotFound
	}
	return err
}

// failure returns the error of an unsuccessful search (B5 of package block).
func (s *search) failure() error {
	if len(s.failed) > 0 {
		errs := make([]error, 0, len(s.failed))
		for _, err := range s.failed {
			errs = append(errs, err)
		}
		return fmt.Errorf("get block %v: %w: %w", s.id, block.ErrUnavailable, errors.Join(errs...))
	}
	if s.bad != nil {
		return fmt.Errorf("get block %v: no good copy, bad ones at %v: %w", s.id, s.bad, block.ErrCorrupt)
	}
	return fmt.Errorf("get block %v: %w", s.id, block.ErrNotFound)
}
