package region

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Remote is the block.Store of a client for a region. Each request goes to one server, the nearest that
// answers, which executes it for the whole region. A get that takes longer than usual is also sent to a
// second server (hedged). Puts are not hedged: a hedged put would send up to block.MaxSize bytes twice, and
// the servers already replace a slow server.
type Remote struct {
	nodes     atomic.Pointer[[]multicast.ProcessID]
	peers     *peers
	hedging   *hedging // of gets
	noBatches noBatches
	// unsynced counts the puts of which no reply has confirmed that the copies are on disk.
	unsynced block.Unsynced
}

// NewRemote makes the store of the region with these servers, the nearest first. After timeout without an
// answer it asks the next server: timeout should be a few times the CallTimeout of the servers, which wait
// for each other.
func NewRemote(caller Caller, nodes []multicast.ProcessID, timeout time.Duration) (*Remote, error) {
	if len(nodes) == 0 || timeout <= 0 {
		return nil, fmt.Errorf("remote blocks: %d servers, timeout %v: use at least one of each", len(nodes), timeout)
	}
	r := &Remote{peers: newPeers(caller, timeout), hedging: newHedging()}
	r.unsynced.Add(1) // a client before this one may have put blocks
	nodes = slices.Clone(nodes)
	r.nodes.Store(&nodes)
	return r, nil
}

// SetServers sets the present servers of the region, the nearest first.
func (r *Remote) SetServers(nodes []multicast.ProcessID) {
	if len(nodes) > 0 {
		nodes = slices.Clone(nodes)
		r.nodes.Store(&nodes)
	}
}

// Put implements block.Store. The region has its copies when Put returns nil.
func (r *Remote) Put(ctx context.Context, b block.Block) error {
	if err := b.CheckSize(); err != nil {
		return err
	}
	reply, err := r.answer(ctx, b.Frame(), isFinal)
	r.note(reply, err)
	return err
}

// note counts a put unless its reply confirms that the copies are on disk. A put that has failed counts, too:
// so the next Sync asks this region. If the region is out of reach, that Sync fails, and other regions must
// have the block on disk.
func (r *Remote) note(reply []byte, err error) {
	if err != nil || !isOnDisk(reply) {
		r.unsynced.Add(1)
	}
}

// Get implements block.Store.
func (r *Remote) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	reply, err := r.getBy(ctx, id, block.RightOf(ctx))
	if err != nil {
		return nil, err
	}
	b, err := decodeBlock(id, reply)
	if err != nil {
		return nil, err
	}
	return block.Into(into, b.Data), nil
}

// getBy reads a block. A right that is not zero is sent with the request. If a server refuses the right, the
// next one is asked: only servers with other vector keys refuse a valid right. If a server is older than
// rights, the next one is asked, too.
func (r *Remote) getBy(ctx context.Context, id block.ID, right block.Right) ([]byte, error) {
	if right == (block.Right{}) {
		return r.get(ctx, encodeGet(opGet, id), isFinal)
	}
	reply, err := r.get(ctx, encodeGetByRight(id, right), func(err error) bool { return isFinal(err) && !errors.Is(err, block.ErrForbidden) })
	if err != nil && ctx.Err() == nil && isUnknown(err) {
		return r.get(ctx, encodeGet(opGet, id), isFinal)
	}
	return reply, err
}

// get sends a request that may be sent twice. A final answer is the answer of the region.
func (r *Remote) get(ctx context.Context, request []byte, final func(error) bool) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	try := func(racing context.Context, node multicast.ProcessID) ([]byte, error) {
		began := time.Now()
		reply, err := r.peers.call(racing, node, request)
		if err != nil && racing.Err() != nil && ctx.Err() == nil && time.Since(began) >= r.hedging.delay() {
			r.peers.suspect(node)
		}
		return reply, err
	}
	reply, err := hedged(ctx, r.hedging, r.peers.order(*r.nodes.Load()), try, final)
	if err == nil || isFinal(err) || ctx.Err() != nil {
		return reply, err
	}
	return nil, r.unavailable(err)
}

// Delete implements block.Store. After a failure some blocks may be deleted.
func (r *Remote) Delete(ctx context.Context, ids []block.ID) error {
	for some := range slices.Chunk(ids, maxIDs) {
		if err := r.ask(ctx, encodeDelete(opDelete, some)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Sign implements block.Signer: a server of the region signs. If a server refuses the right, the next one is
// asked: only servers with other vector keys refuse a valid right.
func (r *Remote) Sign(ctx context.Context, s block.Signing) (url string, err error) {
	final := isFinal
	if s.Do == block.SignGet {
		final = func(err error) bool { return isFinal(err) && !errors.Is(err, block.ErrForbidden) }
	}
	reply, err := r.answer(ctx, encodeSign(&s), final)
	switch {
	case isUnknown(err):
		return "", fmt.Errorf("the servers are of a version that signs no requests to the object storage: upgrade them, or give this machine credentials: %w", err)
	case err != nil:
		return "", err
	}
	return string(reply[1:]), nil
}

// ask is like answer, but does not return the reply.
func (r *Remote) ask(ctx context.Context, request []byte) error {
	_, err := r.answer(ctx, request, isFinal)
	return err
}

// answer sends a request to one server after the other until one returns an answer that is final: another
// would return it too.
func (r *Remote) answer(ctx context.Context, request []byte, final func(error) bool) ([]byte, error) {
	var last error
	for _, node := range r.peers.order(*r.nodes.Load()) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		reply, err := r.peers.call(ctx, node, request)
		if err == nil || final(err) || ctx.Err() != nil {
			return reply, err
		}
		last = err
	}
	return nil, r.unavailable(last)
}

// unavailable returns the error of a request that failed at every server. last is the error of the last one.
func (r *Remote) unavailable(last error) error {
	return fmt.Errorf("all %d storage servers of the region: %w: %w", len(*r.nodes.Load()), block.ErrUnavailable, last)
}

// isFinal reports whether err is the answer of a whole region.
func isFinal(err error) bool {
	return errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt) || errors.Is(err, block.ErrNoSpace) ||
		errors.Is(err, block.ErrConflict) || errors.Is(err, block.ErrForbidden)
}

// Range implements block.Store. It asks every server; the error of a server that does not answer comes after
// the ids of the others.
func (r *Remote) Range(ctx context.Context, from, to block.ID) iter.Seq2[block.ID, error] {
	nodes := r.servers(ctx)
	all := make([]iter.Seq2[block.ID, error], len(nodes))
	for i, node := range nodes {
		all[i] = block.IDs(from, to, func(from block.ID) ([]block.ID, bool, error) {
			reply, err := r.peers.call(ctx, node, encodeList(from, to))
			if err != nil {
				return nil, false, err
			}
			return decodeIDs(reply)
		})
	}
	return block.Merge(all)
}
