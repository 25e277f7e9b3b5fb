package region

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Disk is the block.Store of one server, which can tell how full it is. A Put keeps no reference to
// Block.Data. When a Delete has returned, with or without an error, it deletes nothing any more.
type Disk interface {
	block.Store
	// Usage gives the size of the disk and what is free for blocks, in bytes.
	Usage() (total, free uint64, err error)
	// Sizes gives the length of each block in bytes, 0 of one that is not there, without reading its bytes.
	Sizes(ctx context.Context, ids []block.ID) ([]uint32, error)
}

// Config is what a Node consists of. All fields but Save, Role and Log must be set.
type Config struct {
	Self        multicast.ProcessID
	Members     Members // the newest that are known; Self may not have joined yet, or have left
	Copies      int     // of each block, on distinct servers: r; the same at all servers
	Disk        Disk
	Peers       Caller        // reaches the other members
	CallTimeout time.Duration // how long another server may take for one block
	Healing     Healing
	// Save makes newer members survive this process; nil: this is not needed. The node uses members once Save
	// has returned nil. When it is started again it must be given these or newer ones (M1).
	Save func(Members) error
	// Role returns the role of the caller of a request, from the context that Handle was given; nil: a
	// server.
	Role func(context.Context) Role
	// MayGet reports whether a caller of RoleClient may read a block by the right that it shows, which may be
	// zero; nil: it may read every block.
	MayGet func(ctx context.Context, id block.ID, right block.Right) bool
	Log    *slog.Logger // nil: no log
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	switch {
	case c.Disk == nil || c.Peers == nil:
		return errors.New("block node: Disk and Peers must be set")
	case c.Self == 0:
		return errors.New("block node: Self must be the id of a storage server")
	case c.Copies < 1:
		return fmt.Errorf("block node: %d copies: use 1 or more", c.Copies)
	case c.CallTimeout <= 0:
		return fmt.Errorf("block node: CallTimeout is %v: use some seconds", c.CallTimeout)
	}
	return c.Healing.Validate()
}

// Node is one server of a region's DHT: it keeps blocks on its own disk for the other
// servers, and does puts, gets and deletes on the whole region for clients. Run keeps the
// region whole meanwhile; without it, a node only answers.
type Node struct {
	config Config
	peers  *peers
	counts counts
	limits limits
	wake   chan struct{}                         // room for one: there is something to repair
	remedy chan remedy                           // blocks that an owner was found without
	absent atomic.Pointer[[]multicast.ProcessID] // the servers that are down, ascending
	view   atomic.Pointer[view]
	// changing is full while the members change, or while a copy is dropped by them: one at a time (M2). It
	// is a channel, since a disk may hang meanwhile and waiting must end with the context.
	changing chan struct{}
	taking   atomic.Int64 // blocks on their way to the own disk that others have sent
	// stragglers run on after their request was answered. Close waits for them.
	stragglers stragglers
	// buffers holds the bytes of blocks that are only read to see whether they are good.
	buffers sync.Pool // of *[]byte
}

// NewNode makes the node of a server.
func NewNode(config Config) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	v, err := newView(config.Members, config.Copies)
	if err != nil {
		return nil, fmt.Errorf("block node: %w", err)
	}
	n := &Node{
		config: config, peers: newPeers(config.Peers, config.CallTimeout), limits: newLimits(&config.Healing),
		wake: make(chan struct{}, 1), changing: make(chan struct{}, 1), remedy: make(chan remedy, remedies),
	}
	n.view.Store(v)
	n.peers.forget(v.servers)
	return n, nil
}

// Close returns when nothing that a request has started runs any more. No request may come after it was
// called.
func (n *Node) Close() { n.stragglers.Wait() }

// Handle does what a request asks and gives the reply, which belongs to the caller.
// It keeps no reference to request. What goes wrong with a block is in the reply; an error
// means that request is none. Requests of servers never lead to further requests.
func (n *Node) Handle(ctx context.Context, request []byte) ([]byte, error) {
	q, err := decodeRequest(request)
	if err != nil {
		return nil, err
	}
	if err := n.authorize(ctx, &q); err != nil {
		return replyError(err), nil
	}
	reply, err := n.do(ctx, &q)
	if err != nil {
		return replyError(err), nil
	}
	return reply, nil
}

// do routes a request.
func (n *Node) do(ctx context.Context, q *request) ([]byte, error) {
	switch q.op {
	case opPut:
		return replyOK(0), n.put(ctx, &q.block)
	case opStore:
		return replyOK(0), n.store(ctx, &q.block)
	case opGet, opGetByRight:
		return n.find(ctx, q.id)
	case opFetch:
		return n.fetch(ctx, q.id)
	case opDelete:
		return replyOK(0), n.delete(ctx, q.ids)
	case opDrop:
		return replyOK(0), n.config.Disk.Delete(ctx, q.ids)
	case opList:
		return n.list(ctx, q.from, q.to)
	case opUsage:
		total, free, err := n.config.Disk.Usage()
		return replyUsage(total, free), err
	case opSync:
		return replyOK(0), n.sync(ctx)
	case opFlush:
		return replyOK(0), block.Sync(ctx, n.config.Disk)
	default: // decodeRequest gives no other
		return n.doRegion(ctx, q)
	}
}

// doRegion routes a request that keeps the region whole.
func (n *Node) doRegion(ctx context.Context, q *request) ([]byte, error) {
	v := n.view.Load()
	switch q.op {
	case opPing:
		_, err := n.config.Disk.Sizes(ctx, []block.ID{{}}) // a server whose disk fails is as good as down
		return replyPing(v.stamp), err
	case opMembers:
		return replyMembers(&v.members), nil
	case opSetMembers:
		return replyOK(0), n.SetMembers(ctx, q.members)
	case opStatus:
		status := n.Status()
		return replyStatus(&status)
	case opDigest:
		return n.answerDigest(ctx, q)
	case opScope:
		return n.answerScope(ctx, q)
	case opSizes:
		sizes, err := n.config.Disk.Sizes(ctx, q.ids)
		return replySizes(sizes), err
	default: // opHave
		return n.answerHave(ctx, q)
	}
}

// store puts a block on the own disk.
func (n *Node) store(ctx context.Context, b *block.Block) error {
	if err := verify(b); err != nil {
		return err
	}
	if !slices.Contains(n.view.Load().keepers(b.ID, n.down()), n.config.Self) {
		n.wakeUp() // a keeper could not take it just now: it is handed back as soon as that can
	}
	return n.take(ctx, b)
}

// verify checks a block that came from the wire. The checksum is not computed again on the way to the disk:
// for one put, the client computes it once and each server that the block reaches once.
func verify(b *block.Block) error {
	if !b.IsIntact() {
		return fmt.Errorf("put block %v: it came with a wrong checksum: %w", b.ID, errFailed)
	}
	return nil
}

// take puts a verified block on the disk of this server. It refuses the block if this server leaves, since
// the sender knows older members. So no block comes any more once this server leaves and none is on its way
// to the disk (rounds.next).
func (n *Node) take(ctx context.Context, b *block.Block) error {
	n.taking.Add(1) // before the members are looked at
	defer n.taking.Add(-1)
	if n.view.Load().isLeaving(n.config.Self) {
		return fmt.Errorf("put block %v: server %d is leaving: %w", b.ID, n.config.Self, errStale)
	}
	return n.config.Disk.Put(ctx, *b)
}

// fetch gives the reply with the copy on the own disk, which goes there from the disk without a stop.
func (n *Node) fetch(ctx context.Context, id block.ID) ([]byte, error) {
	sizes, err := n.config.Disk.Sizes(ctx, []block.ID{id})
	if err != nil {
		return nil, err
	}
	room := make([]byte, replyOffset+int(sizes[0]))
	data, err := n.config.Disk.Get(ctx, id, room[replyOffset:replyOffset])
	if err != nil {
		return nil, err
	}
	return replyIn(room, id, data), nil
}

// check reads the copy on the own disk, and gives ErrCorrupt if it is bad.
func (n *Node) check(ctx context.Context, id block.ID) error {
	buffer, _ := n.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new(make([]byte, 0, block.MaxSize))
	}
	defer n.buffers.Put(buffer)
	_, err := n.config.Disk.Get(ctx, id, *buffer)
	return err
}

// isGood reads the copy on the own disk: true, or false if it is bad or not there.
func (n *Node) isGood(ctx context.Context, id block.ID) (bool, error) {
	err := n.check(ctx, id)
	if errors.Is(err, block.ErrCorrupt) || errors.Is(err, block.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// list gives the reply with one page of the ids on the own disk.
func (n *Node) list(ctx context.Context, from, to block.ID) ([]byte, error) {
	ids, more, err := n.page(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return replyIDs(ids, more), nil
}

// page gives the next ids on the own disk, and whether there may be more.
func (n *Node) page(ctx context.Context, from, to block.ID) (ids []block.ID, more bool, err error) {
	ids = make([]block.ID, 0, listIDs)
	for id, err := range n.config.Disk.Range(ctx, from, to) {
		if err != nil {
			return nil, false, err
		}
		if ids = append(ids, id); len(ids) == listIDs {
			return ids, true, nil
		}
	}
	return ids, false, nil
}
