package region

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A request may have several small blocks: it costs a server about as much as a request with one block. The
// request succeeds only if each server has stored all blocks that it should store. Otherwise the blocks are
// put one by one, and put finds other servers for those that fail.

// noBatchesFor is the time for which blocks are put one by one after a server of an older version has refused
// a request with several blocks.
const noBatchesFor = time.Minute

// noBatches remembers that a server refused a request with several blocks.
type noBatches struct{ until atomic.Int64 }

// isSet reports whether blocks are put one by one.
func (s *noBatches) isSet() bool { return time.Now().UnixNano() < s.until.Load() }

// note evaluates the error of a request with several blocks.
func (s *noBatches) note(err error) {
	if isUnknown(err) {
		s.until.Store(time.Now().Add(noBatchesFor).UnixNano())
	}
}

// PutAll implements block.Batcher.
func (r *Remote) PutAll(ctx context.Context, blocks []block.Block) error {
	if r.noBatches.isSet() {
		return errors.ErrUnsupported
	}
	all := make([]*block.Block, len(blocks))
	for i := range blocks {
		if err := blocks[i].CheckSize(); err != nil {
			return err
		}
		all[i] = &blocks[i]
	}
	request := newSharedRequest(encodeBlocks(opPutAll, all))
	reply, err := r.answer(ctx, request.bytes, func(err error) bool { return isFinal(err) || isUnknown(err) })
	request.release(err)
	r.noBatches.note(err)
	r.note(reply, err)
	return err
}

// putAll makes the copies of blocks, and reports whether all of them are on disk.
func (n *Node) putAll(ctx context.Context, blocks []block.Block) (onDisk bool, err error) {
	for i := range blocks {
		if err := verify(&blocks[i]); err != nil {
			return false, err
		}
	}
	if all, onDisk := n.placeAll(ctx, blocks); all {
		return onDisk, nil
	}
	var g errgroup.Group
	g.SetLimit(putsAtATime)
	var volatile atomic.Bool
	for i := range blocks {
		g.Go(func() error {
			onDisk, err := n.put(ctx, &blocks[i])
			if !onDisk {
				volatile.Store(true)
			}
			return err
		})
	}
	err = g.Wait()
	return !volatile.Load(), err
}

// putsAtATime bounds the blocks of one request that are put at the same time.
const putsAtATime = 8

// placeAll stores blocks on the servers that put would try first, with one request to each server. It reports
// whether all servers have stored their blocks in time, and whether all copies are on disk.
func (n *Node) placeAll(ctx context.Context, blocks []block.Block) (all, onDisk bool) {
	parts := n.parts(blocks)
	if parts == nil || n.noBatches.isSet() {
		return false, false
	}
	storing, cancel := context.WithTimeout(ctx, n.config.CallTimeout/slowPart)
	defer cancel()
	var last *part
	results := make(chan placed, len(parts))
	for _, p := range parts {
		if last == nil || !slices.Equal(last.blocks, p.blocks) {
			p.request = newSharedRequest(encodeBlocks(opStoreAll, p.blocks))
			defer p.request.release(nil)
		} else {
			p.request = last.request
		}
		last = p
		p.request.retain()
		n.stragglers.Go(func() {
			onDisk, err := n.storeAllAt(storing, p.server, p.request.bytes)
			p.request.release(err)
			results <- placed{onDisk: onDisk, err: err}
		})
	}
	onDisk = true
	for range parts {
		select {
		case e := <-results:
			if n.noBatches.note(e.err); e.err != nil {
				return false, false
			}
			onDisk = onDisk && e.onDisk
		case <-storing.Done(): // the own disk may hang
			return false, false
		}
	}
	return true, onDisk
}

// part has the blocks of one request to a server.
type part struct {
	server  multicast.ProcessID
	blocks  []*block.Block
	request *sharedRequest // opStoreAll
}

// parts distributes blocks to the servers that put would try first. Nil: there are too few servers.
func (n *Node) parts(blocks []block.Block) (parts []*part) {
	v := n.view.Load()
	for i := range blocks {
		servers := n.lastDown(n.peers.order(v.ring.Walk(blocks[i].ID)))
		if len(servers) < v.copies {
			return nil
		}
		for _, server := range servers[:v.copies] {
			at := slices.IndexFunc(parts, func(p *part) bool { return p.server == server })
			if at < 0 {
				at = len(parts)
				parts = append(parts, &part{server: server})
			}
			parts[at].blocks = append(parts[at].blocks, &blocks[i])
		}
	}
	return parts
}

// storeAllAt stores the blocks of an opStoreAll on a server, and reports whether these copies are on disk.
func (n *Node) storeAllAt(ctx context.Context, server multicast.ProcessID, request []byte) (onDisk bool, err error) {
	if server != n.config.Self {
		reply, err := n.peers.call(ctx, server, request)
		return isOnDisk(reply), err
	}
	return n.config.Disk.Durable(), n.peers.try(ctx, server, func(ctx context.Context) error {
		q, err := decodeRequest(request)
		if err != nil {
			return err
		}
		return n.take(ctx, q.blocks...)
	})
}

// storeAll puts blocks on the own disk.
func (n *Node) storeAll(ctx context.Context, blocks []block.Block) error {
	for i := range blocks {
		if err := verify(&blocks[i]); err != nil {
			return err
		}
		n.wakeForStray(&blocks[i])
	}
	return n.take(ctx, blocks...)
}
