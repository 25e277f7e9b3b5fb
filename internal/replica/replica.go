package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
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
	Partitions  int // in the cluster: entries of the vector
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

// Call is a client's request, or the answer to it; the driver pairs them by Token.
type Call struct {
	Token uint64
	Data  []byte // an encoded Request or Reply
}

// Input of a step: what the multicast core gets, and requests.
type Input struct {
	multicast.Input
	Requests []Call
}

// Output of a step: what the multicast core asks for, and answers that need no gate.
type Output struct {
	multicast.Output
	Replies []Call
}

// Reset empties out for reuse.
func (out *Output) Reset() {
	out.Output.Reset()
	clear(out.Replies)
	out.Replies = out.Replies[:0]
}

// Replica is one replica of one partition. It has one owner.
type Replica struct {
	cfg     Config
	core    multicast.Core
	keys    Keys
	machine *meta.Machine

	position multicast.Position // of the last delivery applied
	time     posix.Time         // highest time of the order
	vector   Vector             // [Partition] is the counter of I1
	sessions map[uint64]*session

	now       multicast.Instant
	seq       uint64
	pending   map[multicast.MessageID]*pending
	byUpdate  map[updateKey]*pending
	parked    []parked
	proposals []multicast.Message

	followUp  bool // more inodes can be reaped
	sinceSync int
	syncAt    time.Duration      // Mono; 0: nothing to sync
	covered   multicast.Position // durable
	expireAt  time.Duration      // next look at the leases
}

// pending is a proposal of this replica that was not delivered yet.
type pending struct {
	tokens []uint64 // who waits for its outcome
	update updateKey
}

type updateKey struct{ session, seq uint64 }

// New makes a replica over its core and its store, which hold what they held when the process ended.
// core must have been made to deliver everything after Position(keys).
func New(cfg Config, core multicast.Core, keys Keys, machine *meta.Machine) (*Replica, error) {
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
		cfg: cfg, core: core, keys: keys, machine: machine,
		seq:      cfg.Incarnation << 32,
		sessions: map[uint64]*session{},
		pending:  map[multicast.MessageID]*pending{},
		byUpdate: map[updateKey]*pending{},
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	// What a crash of the process alone has left may not be safe from a loss of power yet; the
	// multicast forgets what is covered.
	if err := keys.Commit(true); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r.covered = r.position
	return r, nil
}

// Vector gives the replica's vector; the caller must not change it.
func (r *Replica) Vector() Vector { return r.vector }

// Step takes requests in, lets the multicast core take its step and answers
// what can be answered at once.
func (r *Replica) Step(in *Input, out *Output) {
	r.now = in.Now
	r.proposals = r.proposals[:0]
	for _, call := range in.Requests {
		r.request(call, out)
	}
	r.expireSilent()
	in.Proposed = append(in.Proposed, r.proposals...)
	in.Covered = r.covered
	r.core.Step(&in.Input, &out.Output)
}

// Wake is when the next step is needed for the replica's own sake, on
// Instant.Mono; 0: only when something happens.
func (r *Replica) Wake() time.Duration {
	if r.followUp {
		return max(r.now.Mono, 1)
	}
	return earliest(r.syncAt, r.expireAt)
}

// request routes one request.
func (r *Replica) request(call Call, out *Output) {
	q, err := DecodeRequest(call.Data)
	if err != nil {
		r.refuse(call.Token, err, out)
		return
	}
	if q.Kind == Query || q.Kind == Update {
		if err := checkOperation(&q); err != nil {
			r.refuse(call.Token, err, out)
			return
		}
	}
	switch q.Kind {
	case Query:
		r.query(call.Token, q, out)
	case Update:
		r.update(call, q, out)
	default:
		r.propose(call, updateKey{}, out)
	}
}

// checkOperation looks at what would otherwise be found only at delivery.
func checkOperation(q *Request) error {
	c, err := meta.DecodeCommand(q.Command)
	if err != nil {
		return err
	}
	if c.Op.IsUpdate() != (q.Kind == Update) {
		return fmt.Errorf("operation %d does not fit a request of kind %d", c.Op, q.Kind)
	}
	return nil
}

// update answers a repeated update from the session, joins one that is on its
// way, or multicasts it.
func (r *Replica) update(call Call, q Request, out *Output) {
	key := updateKey{q.Session, q.Seq}
	if s := r.sessions[q.Session]; s != nil {
		if answer, ok := s.answers[q.Seq]; ok {
			out.Replies = append(out.Replies, r.reply(call.Token, Answered, answer))
			return
		}
	}
	if p := r.byUpdate[key]; p != nil {
		p.tokens = append(p.tokens, call.Token)
		return
	}
	r.propose(call, key, out)
}

// propose multicasts a request to the partition's group.
func (r *Replica) propose(call Call, key updateKey, out *Output) {
	if len(r.pending) >= r.cfg.MaxPending {
		out.Replies = append(out.Replies, r.reply(call.Token, Overloaded, nil))
		return
	}
	p := &pending{tokens: []uint64{call.Token}, update: key}
	r.pending[r.multicast(envelope{Time: posix.Time(r.now.Wall), Request: call.Data})] = p
	if key != (updateKey{}) {
		r.byUpdate[key] = p
	}
}

// multicast hands an envelope to the core in this step.
func (r *Replica) multicast(e envelope) multicast.MessageID {
	r.seq++
	m := multicast.Message{
		ID:      multicast.MessageID{Sender: r.cfg.Self, Seq: r.seq},
		Dest:    []multicast.GroupID{multicast.GroupID(r.cfg.Partition)},
		Payload: e.encode(),
	}
	r.proposals = append(r.proposals, m)
	return m.ID
}

func (r *Replica) refuse(token uint64, err error, out *Output) {
	out.Replies = append(out.Replies, r.reply(token, Refused, []byte(err.Error())))
}

func (r *Replica) reply(token uint64, s Status, result []byte) Call {
	p := Reply{Status: s, Vector: r.vector, Result: result}
	return Call{Token: token, Data: p.Append(make([]byte, 0, len(result)+32))}
}

// counter is how many deliveries were applied.
func (r *Replica) counter() uint64 { return r.vector[r.cfg.Partition] }

// parked is a query of a client that has seen more than this replica.
type parked struct {
	token uint64
	until uint64
	query Request
}

// query executes a query, or parks it until this replica has caught up with the client (T 3.4.1).
func (r *Replica) query(token uint64, q Request, out *Output) {
	if until := q.Vector.Of(r.cfg.Partition); until > r.counter() {
		if len(r.parked) >= r.cfg.MaxPending {
			out.Replies = append(out.Replies, r.reply(token, Overloaded, nil))
			return
		}
		r.parked = append(r.parked, parked{token: token, until: until, query: q})
		return
	}
	if answer, ok := r.execute(token, &q); ok {
		out.Replies = append(out.Replies, answer)
	}
}

// execute gives the answer to a query, or none if the store failed: then the
// driver stops the replica.
func (r *Replica) execute(token uint64, q *Request) (Call, bool) {
	c, err := meta.DecodeCommand(q.Command)
	invariant.Check(err == nil, "a query that was checked does not decode: %v", err)
	result := r.machine.Query(&c)
	if r.keys.Err() != nil {
		return Call{}, false
	}
	return r.reply(token, Answered, result.Append(nil)), true
}

// unpark executes the queries that waited for what has now been applied.
func (r *Replica) unpark(replies []Call) []Call {
	waiting := r.parked[:0]
	for _, p := range r.parked {
		if p.until > r.counter() {
			waiting = append(waiting, p)
		} else if answer, ok := r.execute(p.token, &p.query); ok {
			replies = append(replies, answer)
		}
	}
	clear(r.parked[len(waiting):])
	r.parked = waiting
	return replies
}

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
