package block

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// put makes the copies of a block, in parallel. Each of Copies workers must place one,
// and takes the next server of the ring's order for each attempt: the first ones are
// the owners, and who follows them stands in for one that fails.
func (n *Node) put(ctx context.Context, q *request) error {
	if err := q.verify(); err != nil {
		return err
	}
	c := candidates{servers: n.peers.order(n.config.Ring.Walk(q.id))}
	frame := sync.OnceValue(func() []byte { return encodePut(opStore, q.id, q.data) })
	var workers sync.WaitGroup
	for range n.config.Copies {
		workers.Go(func() {
			c.each(ctx, func(server multicast.ProcessID) error {
				if server == n.config.Self {
					return n.config.Disk.Put(ctx, q.id, q.data)
				}
				_, err := n.peers.call(ctx, server, frame())
				return err
			})
		})
	}
	workers.Wait()
	if c.placed < n.config.Copies {
		return fmt.Errorf("put block %v: %d of %d copies: %w", q.id, c.placed, n.config.Copies, c.why(ctx))
	}
	return nil
}

// candidates hands out the servers for the copies of one block, each once.
type candidates struct {
	mu      sync.Mutex
	servers []multicast.ProcessID // GUARDED_BY mu; not tried yet
	placed  int                   // GUARDED_BY mu; copies
	errs    []error               // GUARDED_BY mu; of the servers that failed
}

// next gives the next server; false if there is none or no further one may help.
func (c *candidates) next(ctx context.Context) (multicast.ProcessID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.servers) == 0 || ctx.Err() != nil {
		return 0, false
	}
	server := c.servers[0]
	c.servers = c.servers[1:]
	return server, true
}

// each calls try with one server after the other until one succeeds.
func (c *candidates) each(ctx context.Context, try func(multicast.ProcessID) error) {
	for {
		server, ok := c.next(ctx)
		if !ok {
			return
		}
		if c.note(try(server)) {
			return
		}
	}
}

// note keeps the outcome of one try, and reports whether its worker is done. A conflict
// ends all: no server may have two blocks with one id.
func (c *candidates) note(err error) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.placed++
		return true
	}
	c.errs = append(c.errs, err)
	if errors.Is(err, ErrConflict) {
		c.servers = nil
	}
	return false
}

// why gives the error that tells most about too few copies, when all workers are done.
func (c *candidates) why(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, kind := range []error{ErrConflict, ErrNoSpace} {
		if i := slices.IndexFunc(c.errs, func(err error) bool { return errors.Is(err, kind) }); i >= 0 {
			return c.errs[i]
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(c.errs...))
}

// get gives the reply with a block: the own copy if it is good, else the first good one
// in the ring's order. Copies found bad on the way are replaced.
func (n *Node) get(ctx context.Context, id ID) ([]byte, error) {
	servers := n.peers.order(n.config.Ring.Walk(id))
	servers = slices.DeleteFunc(servers, func(s multicast.ProcessID) bool { return s == n.config.Self })
	servers = slices.Insert(servers, 0, n.config.Self)
	var bad []multicast.ProcessID
	var failed error // other than ErrNotFound and ErrCorrupt
	for _, server := range servers {
		reply, err := n.copyOf(ctx, id, server)
		switch {
		case err == nil:
			n.heal(ctx, id, reply, bad)
			return reply, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrCorrupt):
			n.config.Log.Warn("corrupt block", "block", id, "server", server, "error", err)
			bad = append(bad, server)
		case !errors.Is(err, ErrNotFound):
			failed = err
		}
	}
	switch {
	case failed != nil:
		return nil, fmt.Errorf("get block %v: %w: %w", id, ErrUnavailable, failed)
	case bad != nil:
		return nil, fmt.Errorf("get block %v: no good copy, bad ones at %v: %w", id, bad, ErrCorrupt)
	}
	return nil, fmt.Errorf("get block %v: %w", id, ErrNotFound)
}

// copyOf gives the reply with the verified copy of one server.
func (n *Node) copyOf(ctx context.Context, id ID, server multicast.ProcessID) ([]byte, error) {
	if server == n.config.Self {
		return n.fetch(ctx, id)
	}
	reply, err := n.peers.call(ctx, server, encodeGet(opFetch, id))
	if err == nil {
		_, err = decodeBlock(id, reply)
	}
	return reply, err
}

// heal replaces bad copies by the one in reply: a put replaces a bad copy (B2). Who
// asked for the block gets it in any case; what cannot be healed now is tried again by
// the next get.
func (n *Node) heal(ctx context.Context, id ID, reply []byte, bad []multicast.ProcessID) {
	if len(bad) == 0 {
		return
	}
	data, err := decodeBlock(id, reply)
	if err != nil {
		return // the copy went bad in memory: whoever receives it will find out
	}
	for _, server := range bad {
		if server == n.config.Self {
			err = n.config.Disk.Put(ctx, id, data)
		} else {
			_, err = n.peers.call(ctx, server, encodePut(opStore, id, data))
		}
		if err != nil {
			n.config.Log.Warn("cannot replace corrupt block", "block", id, "server", server, "error", err)
		} else {
			n.config.Log.Info("replaced corrupt block", "block", id, "server", server)
		}
	}
}

// delete removes all copies of blocks, wherever they are: also servers that own none
// may have stood in for an owner.
func (n *Node) delete(ctx context.Context, ids []ID) error {
	var g errgroup.Group
	frame := encodeDelete(opDrop, ids)
	for _, m := range n.config.Ring.Members() {
		g.Go(func() error {
			if m.ID == n.config.Self {
				return n.config.Disk.Delete(ctx, ids)
			}
			_, err := n.peers.call(ctx, m.ID, frame)
			return err
		})
	}
	return g.Wait()
}
