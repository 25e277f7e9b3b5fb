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
	"github.com/globalfs/globalfs/internal/buffers"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Disk is the block.Store of one server, with its usage. A Put keeps no reference to Block.Data. When a
// Delete has returned, with or without an error, it deletes nothing any more.
type Disk interface {
	block.Store
	// Usage returns the size of the disk and the free space for blocks, in bytes.
	Usage() (total, free uint64, err error)
	// Sizes returns the length of each block in bytes, 0 for an absent block, without reading its bytes.
	Sizes(ctx context.Context, ids []block.ID) ([]uint32, error)
	// Durable reports whether each block survives a loss of power once its Put has returned.
	Durable() bool
}

// Config of a Node. All fields but Save, Role and Log must be set.
type Config struct {
	Self        multicast.ProcessID
	Members     Members // the newest known ones; Self may not have joined yet, or have left
	Copies      int     // of each block, on distinct servers: r; the same at all servers
	Disk        Disk
	Peers       Caller        // reaches the other members
	CallTimeout time.Duration // bound of another server's answer for one block
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
	// Partitions returns the number of partitions of the tree. A caller of RoleClient may not store a block
	// of a partition that does not exist: no collection would find it. Nil: there is no bound.
	Partitions func() int
	// Sign signs a request to the object storage of the region. Nil: the blocks are on the disks.
	Sign func(ctx context.Context, s block.Signing) (url string, err error)
	Log  *slog.Logger // nil: no log
}

// Validate returns an error with the wrong field.
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

// Node is one storage server of a region: it keeps blocks on its own disk, and executes puts, gets and
// deletes on the whole region for clients. A node answers requests at any time; it repairs only while Run
// runs.
type Node struct {
	config      Config
	peers       *peers
	counts      counts
	limits      limits
	wake        chan struct{}                         // room for one; full: a repair round is due
	remedy      chan remedy                           // blocks that were missing at an owner
	downServers atomic.Pointer[[]multicast.ProcessID] // the servers that are down, ascending
	view        atomic.Pointer[view]
	// changing is a lock: it is full while the members change, or while a copy is dropped by them (M2). It is
	// a channel, since a disk may hang while the lock is held, and waiting must end with the context.
	changing chan struct{}
	incoming atomic.Int64 // calls of take that have not returned
	// stragglers are goroutines that continue after the answer to their request. Close waits for them.
	stragglers stragglers
	flushes    *flushes
	noBatches  noBatches // of other servers
	// buffers holds the bytes of blocks that are read only to verify them.
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
		wake: make(chan struct{}, 1), changing: make(chan struct{}, 1), remedy: make(chan remedy, remedies), flushes: newFlushes(),
	}
	n.view.Store(v)
	n.peers.forget(v.servers)
	return n, nil
}

// Close returns when all work of earlier requests has ended. No request may follow the call of Close.
func (n *Node) Close() { n.stragglers.Wait() }

// Handle executes a request and returns the reply, which belongs to the caller. The node keeps no reference
// to request or reply. The errors of a valid request are in the reply; Handle returns an error if the request
// is malformed. A request of another server never makes this server send requests.
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
		onDisk, err := n.put(ctx, &q.block)
		return replyPut(onDisk), err
	case opStore:
		return replyPut(n.config.Disk.Durable()), n.store(ctx, &q.block)
	case opPutAll:
		onDisk, err := n.putAll(ctx, q.blocks)
		return replyPut(onDisk), err
	case opStoreAll:
		return replyPut(n.config.Disk.Durable()), n.storeAll(ctx, q.blocks)
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
	case opSign:
		return n.sign(ctx, q.signing)
	case opFlush:
		return replyOK(0), block.Sync(ctx, n.config.Disk)
	default: // decodeRequest returns no other
		return n.doRegion(ctx, q)
	}
}

// sign signs a request to the object storage.
func (n *Node) sign(ctx context.Context, s block.Signing) ([]byte, error) {
	if n.config.Sign == nil {
		return nil, errors.New("the blocks of this cluster are not in object storage")
	}
	url, err := n.config.Sign(ctx, s)
	return append(replyOK(len(url)), url...), err
}

// doRegion routes a request that keeps the region whole.
func (n *Node) doRegion(ctx context.Context, q *request) ([]byte, error) {
	v := n.view.Load()
	switch q.op {
	case opPing:
		_, err := n.config.Disk.Sizes(ctx, []block.ID{{}}) // a server with a failing disk counts as down
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
	n.wakeForStray(b)
	return n.take(ctx, *b)
}

// wakeForStray begins a repair round if this server receives a block of which it is no keeper. A keeper could
// not store the block: the round hands it back as soon as the keeper can.
func (n *Node) wakeForStray(b *block.Block) {
	if !slices.Contains(n.view.Load().keepers(b.ID, n.down()), n.config.Self) {
		n.wakeUp()
	}
}

// verify verifies the checksum of a block from the wire. Later steps on the way to the disk rely on it: for
// one put, the client and each server compute the checksum once.
func verify(b *block.Block) error {
	if !b.IsIntact() {
		return fmt.Errorf("put block %v: it came with a wrong checksum: %w", b.ID, errFailed)
	}
	return nil
}

// take puts verified blocks on the disk of this server. It refuses them if this server is leaving: the sender
// knows older members. So a leaving server without incoming blocks gets no block any more (rounds.next).
func (n *Node) take(ctx context.Context, blocks ...block.Block) error {
	n.incoming.Add(1) // before the check of the members: see rounds.next
	defer n.incoming.Add(-1)
	if n.view.Load().isLeaving(n.config.Self) {
		return fmt.Errorf("put block %v: server %d is leaving: %w", blocks[0].ID, n.config.Self, errStale)
	}
	if len(blocks) > 1 {
		if err := block.PutAll(ctx, n.config.Disk, blocks); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for i := range blocks {
		if err := n.config.Disk.Put(ctx, blocks[i]); err != nil {
			return err
		}
	}
	return nil
}

// fetch returns the reply with this server's copy of a block. It reads from the disk into the reply, which is
// in memory of package buffers.
func (n *Node) fetch(ctx context.Context, id block.ID) ([]byte, error) {
	sizes, err := n.config.Disk.Sizes(ctx, []block.ID{id})
	if err != nil {
		return nil, err
	}
	room := buffers.Take(replyOffset + int(sizes[0]))
	data, err := n.config.Disk.Get(ctx, id, room[replyOffset:replyOffset])
	if err != nil {
		return nil, err
	}
	return replyIn(room, id, data), nil
}

// check reads the copy on the own disk, and returns ErrCorrupt if it is bad.
func (n *Node) check(ctx context.Context, id block.ID) error {
	buffer, _ := n.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new(make([]byte, 0, block.MaxSize))
	}
	defer n.buffers.Put(buffer)
	_, err := n.config.Disk.Get(ctx, id, *buffer)
	return err
}

// isGood reads the copy on the own disk. It returns false if the copy is bad or absent.
func (n *Node) isGood(ctx context.Context, id block.ID) (bool, error) {
	err := n.check(ctx, id)
	if errors.Is(err, block.ErrCorrupt) || errors.Is(err, block.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// list returns the reply with one page of the ids on the own disk.
func (n *Node) list(ctx context.Context, from, to block.ID) ([]byte, error) {
	ids, more, err := n.page(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return replyIDs(ids, more), nil
}

// page returns the next ids on the own disk, and whether there may be more.
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
