package block

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Disk is the Store of one server, which knows how full it is.
type Disk interface {
	Store
	// Usage gives the size of the disk and what is free for blocks, in bytes.
	Usage() (total, free uint64, err error)
	// Sizes gives the length of each block in bytes, 0 of one that is not there, without reading its bytes.
	Sizes(ctx context.Context, ids []ID) ([]uint32, error)
}

// NodeConfig is what a Node consists of. All fields but Log must be set.
type NodeConfig struct {
	Self        multicast.ProcessID // a member of Ring
	Ring        *ring.Ring          // all storage servers of the region
	Copies      int                 // of each block, on distinct servers: r
	Disk        Disk
	Peers       Caller        // reaches the other members
	CallTimeout time.Duration // how long another server may take for one block
	Log         *slog.Logger  // nil: no log
}

// Validate says what is wrong.
func (c *NodeConfig) Validate() error {
	switch {
	case c.Ring == nil || c.Disk == nil || c.Peers == nil:
		return errors.New("block node: Ring, Disk and Peers must be set")
	case !c.Ring.Has(c.Self):
		return fmt.Errorf("block node: server %d is not on the ring", c.Self)
	case c.Copies < 1 || c.Copies > c.Ring.Len():
		return fmt.Errorf("block node: %d copies on %d servers: use 1 to the number of servers", c.Copies, c.Ring.Len())
	case c.CallTimeout <= 0:
		return fmt.Errorf("block node: CallTimeout is %v: use some seconds", c.CallTimeout)
	}
	return nil
}

// Node is one server of a region's DHT: it keeps blocks on its own disk for the other
// servers, and does puts, gets and deletes on the whole region for clients. It has
// no goroutine of its own; those that Handle starts end before it returns.
type Node struct {
	config NodeConfig
	peers  *peers
	// buffers holds the bytes of blocks on their way from the disk to a reply.
	buffers sync.Pool // of *[]byte
}

// NewNode makes the node of a server.
func NewNode(config NodeConfig) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Node{config: config, peers: newPeers(config.Peers, config.CallTimeout)}, nil
}

// Handle does what a request asks and gives the reply, which belongs to the caller.
// It keeps no reference to request. What goes wrong with a block is in the reply; an error
// means that request is none. Requests of servers never lead to further requests.
func (n *Node) Handle(ctx context.Context, request []byte) ([]byte, error) {
	q, err := decodeRequest(request)
	if err != nil {
		return nil, err
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
		return replyOK(0), n.put(ctx, q)
	case opStore:
		return replyOK(0), n.store(ctx, q)
	case opGet:
		return n.get(ctx, q.id)
	case opFetch:
		return n.fetch(ctx, q.id)
	case opDelete:
		return replyOK(0), n.delete(ctx, q.ids)
	case opDrop:
		return replyOK(0), n.config.Disk.Delete(ctx, q.ids)
	case opList:
		return n.list(ctx, q.from, q.to)
	default: // opUsage: decodeRequest gives no other
		total, free, err := n.config.Disk.Usage()
		return replyUsage(total, free), err
	}
}

// store puts a block on the own disk.
func (n *Node) store(ctx context.Context, q *request) error {
	if err := q.verify(); err != nil {
		return err
	}
	return n.config.Disk.Put(ctx, q.id, q.data)
}

// verify checks the block of a put as it came from the wire.
func (q *request) verify() error {
	if checksum(q.id, q.data) != q.crc {
		return fmt.Errorf("put block %v: it came with a wrong checksum: %w", q.id, errFailed)
	}
	return nil
}

// fetch gives the reply with the copy on the own disk.
func (n *Node) fetch(ctx context.Context, id ID) ([]byte, error) {
	buffer, _ := n.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	defer n.buffers.Put(buffer)
	data, err := n.config.Disk.Get(ctx, id, *buffer)
	if err != nil {
		return nil, err
	}
	*buffer = data
	return replyBlock(id, data), nil
}

// list gives the reply with one page of the ids on the own disk.
func (n *Node) list(ctx context.Context, from, to ID) ([]byte, error) {
	ids := make([]ID, 0, rangePage)
	for id, err := range n.config.Disk.Range(ctx, from, to) {
		if err != nil {
			return nil, err
		}
		if ids = append(ids, id); len(ids) == rangePage {
			break
		}
	}
	return replyIDs(ids, len(ids) == rangePage), nil
}
