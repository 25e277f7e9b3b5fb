package replica

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Keys is the store of a replica: the metadata's keys, committed in batches. Reads do not
// fail: the first error sticks, and Commit and Err give it.
type Keys interface {
	meta.Keys
	// Commit makes all writes since the last one visible after a crash of the process;
	// with sync also after a loss of power.
	Commit(sync bool) error
	Err() error
}

// Config of a replica.
type Config struct {
	Partition   uint16
	Groups      []multicast.Group // of all partitions, by their ids, as they were born
	Cluster     []byte            // names the cluster: clients of others, or of what was there before, are refused; nil: anybody is welcome
	Self        multicast.ProcessID
	Index       int           // of Self in its group: staggers what any replica may do
	Incarnation uint64        // grows with every start of the process; below 2^31
	Lease       time.Duration // a session that is silent for longer ends; 0: DefaultLease
	MaxPending  int           // requests waiting for delivery or catching up; 0: DefaultMaxPending
}

// Defaults of Config.
const (
	DefaultLease      = time.Minute
	DefaultMaxPending = 8192
)

// Replica is one replica of one partition: a turn.Node. It has one owner.
type Replica struct {
	cfg     Config
	cores   cores
	keys    Keys
	machine *meta.Machine

	position  multicast.Position // of the last delivery of the partition's order applied
	relayed   place              // the last message of the order between partitions executed
	crossings uint64             // commands of several partitions, so far
	time      posix.Time         // highest time of the order
	vector    ask.Vector         // [Partition].Count is the counter of I1
	sessions  map[uint64]*session
	ended     map[uint64]struct{} // sessions
	commands  []*coordinated      // in the order of their places
	byPlace   map[place]*coordinated

	now      multicast.Instant
	seq      uint64
	pending  map[multicast.MessageID]*pending // in the partition's order
	crossing map[multicast.MessageID]*pending // in the order between partitions
	byUpdate map[updateKey]*pending
	parked   []parked
	barrier  multicast.MessageID // under way, if somebody waits for it
	fenced   []parked            // who does
	fresh    []parked            // for the next barrier
	late     []turn.Call         // answers for the next step

	relays       []waiting
	relayRetryAt time.Duration
	underWay     map[multicast.MessageID]bool   // what this replica itself has proposed, in either order
	posted       map[uint64]multicast.MessageID // by number of the post
	postRetryAt  time.Duration
	early        map[place]map[uint16]heard
	earlyBytes   int
	asks         uint64
	saying       int // bytes of votes in this step
	heard        map[multicast.ProcessID]time.Duration
	outside      []waitingUpdate // for a quorum of its parties to be in reach
	behind       []waitingUpdate // for what its client has seen to be decided here
	unheard      []uint16        // partitions that are waited for
	pingAt       time.Duration
	replace      []multicast.Replacement // that are not seen to be done, oldest first
	replaceAt    time.Duration
	pursueAt     time.Duration // Mono; 0: nothing to do for commands of several partitions

	lead      bool // an operator wants this replica to lead its group
	followUp  bool // more inodes can be reaped
	sinceSync int
	syncAt    time.Duration      // Mono; 0: nothing to sync
	covered   multicast.Progress // of position, durable
	crossed   multicast.Progress // of relayed, durable
	orderedAt time.Duration      // when a delivery was applied last
	expireAt  time.Duration      // next look at the leases
}

// New makes a replica over its cores and its store, which hold what they held when the process ended: local is the core
// of the partition's own order, of a single group; cross that of the order between partitions. They must have been made to deliver
// everything after Positions(keys).
func New(cfg Config, local, cross Core, keys Keys, machine *meta.Machine) (*Replica, error) {
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.MaxPending == 0 {
		cfg.MaxPending = DefaultMaxPending
	}
	if cfg.Incarnation >= 1<<31 {
		return nil, fmt.Errorf("replica: incarnation %d: must be below 2^31", cfg.Incarnation)
	}
	r := &Replica{
		cfg: cfg, keys: keys, machine: machine,
		cores:    cores{local: local, cross: cross, frames: map[multicast.ProcessID][]byte{}},
		seq:      cfg.Incarnation << 32,
		sessions: map[uint64]*session{},
		ended:    map[uint64]struct{}{},
		byPlace:  map[place]*coordinated{},
		pending:  map[multicast.MessageID]*pending{},
		crossing: map[multicast.MessageID]*pending{},
		byUpdate: map[updateKey]*pending{},
		underWay: map[multicast.MessageID]bool{},
		posted:   map[uint64]multicast.MessageID{},
		early:    map[place]map[uint16]heard{},
		heard:    map[multicast.ProcessID]time.Duration{},
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	// What a crash of the process alone has left may not be safe from a loss of power yet; the
	// multicast forgets what is covered.
	if err := keys.Commit(true); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r.covered, r.crossed = multicast.UpTo(r.position), multicast.UpTo(r.relayed)
	return r, nil
}

// Vector gives the replica's vector; the caller must not change it.
func (r *Replica) Vector() ask.Vector { return r.vector }

// members gives the replicas of a partition; none if there is no such partition.
func (r *Replica) members(partition uint16) []multicast.ProcessID {
	return r.cores.cross.Members(multicast.GroupID(partition))
}

// Step takes requests in, lets the multicast core take its step and answers
// what can be answered at once.
func (r *Replica) Step(in *turn.Input, out *turn.Output) {
	r.now = in.Now
	r.cores.split(&in.Input, r.hear)
	for _, f := range in.Frames {
		if len(f.Data) > 0 {
			r.heardFrom(f.Peer)
		}
	}
	r.resume(out)
	for _, call := range in.Requests {
		r.request(call, out)
	}
	r.withdraw(in.Withdrawn)
	r.expireSilent()
	r.raiseBarrier()
	r.pursue()
	out.Replies = append(out.Replies, r.late...)
	r.late = r.late[:0]
	r.cores.localIn.Covered, r.cores.crossIn.Covered = r.covered, r.crossed
	lead := r.lead || in.Lead
	r.cores.localIn.Lead, r.cores.crossIn.Lead, r.lead = lead, lead, false
	r.cores.step(&out.Output)
	if r.cores.left {
		r.refuseAll(out)
	}
}

// Lead has this replica lead its group, in both orders, from the next step on, if the group follows. Nothing that was ordered is lost
// by it.
func (r *Replica) Lead() { r.lead = true }

// Wake is when the next step is needed for the replica's own sake, on
// Instant.Mono; 0: only when something happens.
func (r *Replica) Wake() time.Duration {
	if r.followUp {
		return max(r.now.Mono, 1)
	}
	return earliest(r.syncAt, r.expireAt, r.pursueAt)
}

// request routes one request.
func (r *Replica) request(call turn.Call, out *turn.Output) {
	q, err := ask.DecodeRequest(call.Data)
	if err == nil {
		err = call.From.Validate()
	}
	if err != nil {
		r.refuse(call.Token, err, out)
		return
	}
	if q.Kind == ask.Query || q.Kind == ask.Update {
		if err := checkOperation(&q); err != nil {
			r.refuse(call.Token, err, out)
			return
		}
	}
	if q.Kind == ask.OpenSession && r.cfg.Cluster != nil && !bytes.Equal(q.Command, r.cfg.Cluster) {
		r.refuse(call.Token, errors.New("the client belongs to another cluster, or to one that was here before: mount again"), out)
		return
	}
	if r.cores.left && q.Kind != ask.AskStatus {
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Replaced, nil))
		return
	}
	switch q.Kind {
	case ask.Query:
		r.query(call, q, out)
	case ask.Update:
		r.update(call, q, out)
	case ask.AskStatus:
		s := r.status()
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Answered, s.Append(nil)))
	default:
		r.propose(call, updateKey{}, out)
	}
}

// checkOperation looks at what would otherwise be found only at delivery.
func checkOperation(q *ask.Request) error {
	c, err := meta.DecodeCommand(q.Command)
	if err != nil {
		return err
	}
	if c.Op.IsUpdate() != (q.Kind == ask.Update) || c.Op.IsPost() {
		return fmt.Errorf("operation %d does not fit a request of kind %d", c.Op, q.Kind)
	}
	return checkGarbage(&c, q)
}

func (r *Replica) refuse(token uint64, err error, out *turn.Output) {
	out.Replies = append(out.Replies, r.reply(token, ask.Refused, []byte(err.Error())))
}

func (r *Replica) reply(token uint64, s ask.Outcome, result []byte) turn.Call {
	p := ask.Reply{Status: s, Vector: r.vector, Result: result}
	return turn.Call{Token: token, Data: p.Append(make([]byte, 0, len(result)+32))}
}

// counter is how many deliveries were applied.
func (r *Replica) counter() uint64 { return r.vector[r.cfg.Partition].Count }

// earliest gives the smallest of those that are not 0.
func earliest(times ...time.Duration) time.Duration {
	var first time.Duration
	for _, t := range times {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}
