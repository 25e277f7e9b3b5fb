package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// tryTimeout is how long a replica may take before the next nearest is asked as well, and
// homeAfter when the nearest one gets its next chance.
const (
	tryTimeout = 5 * time.Second
	homeAfter  = 10 * time.Second
	retryMin   = 10 * time.Millisecond
	retryMax   = time.Second
)

// partition is how a client reaches one partition.
type partition struct {
	client   *Client
	id       uint16
	replicas []multicast.ProcessID // the nearest first

	preferred atomic.Int32 // index of the replica that answered last
	movedAt   atomic.Int64 // Unix nanoseconds; when preferred left 0

	opening sync.Mutex // held while a session is opened

	mu       sync.Mutex
	session  uint64            // GUARDED_BY mu; 0: none
	next     uint64            // GUARDED_BY mu; the number of the next update
	done     uint64            // GUARDED_BY mu; all up to here are answered or given up
	answered map[uint64]bool   // GUARDED_BY mu; those above done
	moved    chan struct{}     // GUARDED_BY mu; closed when done grows
	held     map[posix.Ino]int // GUARDED_BY mu; open files
	creating []uint64          // GUARDED_BY mu; the counters at which creations under way began
}

func newPartition(c *Client, p *topology.Partition) *partition {
	q := &partition{client: c, id: p.ID, answered: map[uint64]bool{}, moved: make(chan struct{}), held: map[posix.Ino]int{}}
	for _, r := range topology.Nearest(c.cfg.Region, p.Replicas) {
		q.replicas = append(q.replicas, r.Process)
	}
	return q
}

// errNoReplica says that none of the replicas answered in time.
var errNoReplica = errors.New("no replica of the partition answers")

// ask sends a request to the nearest replica that answers, within ctx. tries is how often it
// was sent.
func (p *partition) ask(ctx context.Context, q *replica.Request) (reply replica.Reply, tries int, err error) {
	q.Vector = p.client.seen(q.Vector)
	b := q.Append(make([]byte, 0, len(q.Command)+64))
	p.goHome()
	pause := retryMin
	for {
		at := int(p.preferred.Load())
		for i := range p.replicas {
			tries++
			n := (at + i) % len(p.replicas)
			reply, err = p.try(ctx, p.replicas[n], b)
			if err == nil && reply.Status != replica.Overloaded {
				p.prefer(n)
				return reply, tries, nil
			}
			if ctx.Err() != nil {
				return reply, tries, fmt.Errorf("%w: partition %d: %w", ctx.Err(), p.id, errors.Join(errNoReplica, err))
			}
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, retryMax)
		case <-ctx.Done():
		}
	}
}

// try sends a request once.
func (p *partition) try(ctx context.Context, to multicast.ProcessID, request []byte) (replica.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	b, err := p.client.cfg.Caller.Call(ctx, to, request)
	if err != nil {
		return replica.Reply{}, err
	}
	reply, err := replica.DecodeReply(b)
	if err == nil {
		p.client.Adopt(reply.Vector)
	}
	return reply, err
}

// prefer remembers who answered; goHome gives the nearest one a new chance after a while.
func (p *partition) prefer(n int) {
	if p.preferred.Swap(int32(n)) != int32(n) && n != 0 {
		p.movedAt.Store(time.Now().UnixNano())
		p.client.cfg.Logger.Warn("the nearest replica does not answer: using another one", "partition", p.id, "process", p.replicas[n])
	}
}

func (p *partition) goHome() {
	if p.preferred.Load() != 0 && time.Since(time.Unix(0, p.movedAt.Load())) > homeAfter {
		p.preferred.Store(0)
	}
}

// seen merges what the client has seen into v, unless v is given.
func (c *Client) seen(v replica.Vector) replica.Vector {
	if v != nil {
		return v
	}
	return c.Vector()
}

// query executes a command that only reads.
func (p *partition) query(ctx context.Context, cmd *meta.Command) (meta.Result, error) {
	reply, _, err := p.ask(ctx, &replica.Request{Kind: replica.Query, Command: cmd.Append(nil)})
	if err != nil {
		return meta.Result{}, err
	}
	return p.result(reply)
}

// result is the outcome in a reply.
func (p *partition) result(reply replica.Reply) (meta.Result, error) {
	if reply.Status != replica.Answered {
		return meta.Result{}, fmt.Errorf("partition %d refused a request (status %d): %s", p.id, reply.Status, reply.Result)
	}
	r, err := meta.DecodeResult(reply.Result)
	if err != nil {
		return r, err
	}
	return r, r.Code.Err()
}

// update executes a command once.
func (p *partition) update(ctx context.Context, cmd *meta.Command) (meta.Result, error) {
	encoded := cmd.Append(nil)
	for {
		session, seq, done, err := p.begin(ctx)
		if err != nil {
			return meta.Result{}, err
		}
		reply, tries, err := p.ask(ctx, &replica.Request{Kind: replica.Update, Session: session, Seq: seq, Done: done, Command: encoded})
		p.end(session, seq)
		if err != nil {
			return meta.Result{}, err
		}
		if reply.Status != replica.UnknownSession {
			return p.result(reply)
		}
		p.lost(session)
		if tries > 1 {
			return meta.Result{}, fmt.Errorf("partition %d ended this session while an update was under way: its outcome is unknown", p.id)
		}
	}
}
