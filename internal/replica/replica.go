package replica

import (
	"fmt"
	"slices"
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
	Groups      []multicast.Group // of all partitions, by their ids, as they were born
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
	Requests  []Call
	Withdrawn []uint64 // tokens of requests that nobody waits for any more
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
	cores   cores
	keys    Keys
	machine *meta.Machine

	position  multicast.Position // of the last delivery of the partition's order applied
	relayed   place              // the last message of the order between partitions executed
	crossings uint64             // commands of several partitions, so far
	time      posix.Time         // highest time of the order
	vector    Vector             // [Partition].Count is the counter of I1
	sessions  map[uint64]*session
	commands  []*coordinated // in the order of their places
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
	late     []Call              // answers for the next step

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

	followUp  bool // more inodes can be reaped
	sinceSync int
	syncAt    time.Duration      // Mono; 0: nothing to sync
	covered   multicast.Position // durable
	crossed   place              // of relayed, durable
	orderedAt time.Duration      // when a delivery was applied last
	expireAt  time.Duration      // next look at the leases
}

// pending is a proposal of this replica that was not delivered yet.
type pending struct {
	tokens []uint64 // who waits for its outcome
	update updateKey
}

type updateKey struct{ session, seq uint64 }

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
	r.covered, r.crossed = r.position, r.relayed
	return r, nil
}

// Vector gives the replica's vector; the caller must not change it.
func (r *Replica) Vector() Vector { return r.vector }

// members gives the replicas of a partition; none if there is no such partition.
func (r *Replica) members(partition uint16) []multicast.ProcessID {
	return r.cores.cross.Members(multicast.GroupID(partition))
}

// Step takes requests in, lets the multicast core take its step and answers
// what can be answered at once.
func (r *Replica) Step(in *Input, out *Output) {
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
	r.cores.step(&out.Output)
}

// Wake is when the next step is needed for the replica's own sake, on
// Instant.Mono; 0: only when something happens.
func (r *Replica) Wake() time.Duration {
	if r.followUp {
		return max(r.now.Mono, 1)
	}
	return earliest(r.syncAt, r.expireAt, r.pursueAt)
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
	case AskStatus:
		s := r.status()
		out.Replies = append(out.Replies, r.reply(call.Token, Answered, s.Append(nil)))
	default:
		r.propose(call, updateKey{}, out)
	}
}

func (r *Replica) status() Status {
	s := Status{
		Partition: r.cfg.Partition, Self: r.cfg.Self, Leads: r.cores.local.Leads(),
		Applied: r.counter(),
		// By the order's own time, and by the clock that does not jump: what is applied late is old.
		Age: max(0, r.now.Mono-r.orderedAt, time.Duration(r.now.Wall-int64(r.time))),
	}
	for _, c := range r.commands {
		if !c.decided {
			s.Undecided++
		}
	}
	return s
}

// checkOperation looks at what would otherwise be found only at delivery.
func checkOperation(q *Request) error {
	c, err := meta.DecodeCommand(q.Command)
	if err != nil {
		return err
	}
	if c.Op.IsUpdate() != (q.Kind == Update) || c.Op.IsPost() {
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
	waiting := waitingUpdate{call: call, key: key, query: q, since: r.now.Mono}
	switch c := r.undecided(key); {
	case c != nil:
		c.tokens = append(c.tokens, call.Token)
	case r.decidedUpTo().Compare(q.Vector.Of(r.cfg.Partition).Cross) < 0 && len(r.behind) < r.cfg.MaxPending:
		r.behind = append(r.behind, waiting)
	case len(q.Dest) == 0:
		r.propose(call, key, out)
	case !slices.Contains(q.Dest, r.cfg.Partition):
		r.refuse(call.Token, fmt.Errorf("update of partitions %v: partition %d is asked, and is none of them", q.Dest, r.cfg.Partition), out)
	case len(r.crossing)+len(r.outside) >= r.cfg.MaxPending:
		out.Replies = append(out.Replies, r.reply(call.Token, Overloaded, nil))
	default:
		r.outside = append(r.outside, waiting)
	}
}

// waitingUpdate is an update that is not proposed yet.
type waitingUpdate struct {
	call  Call
	key   updateKey
	query Request
	since time.Duration
}

// resume proposes updates whose clients have seen commands of several partitions that are now decided here: an update comes
// after what its client has seen. (All else that the client has seen of this partition is before it in the order anyway.)
func (r *Replica) resume(out *Output) {
	if len(r.behind) == 0 {
		return
	}
	waiting := r.behind
	r.behind = nil
	for i := range waiting {
		r.update(waiting[i].call, waiting[i].query, out)
	}
}

// withdraw drops what was not proposed yet and nobody waits for: who was told that it failed must not see it happen.
func (r *Replica) withdraw(tokens []uint64) {
	if len(tokens) == 0 {
		return
	}
	update := func(w waitingUpdate) bool { return slices.Contains(tokens, w.call.Token) }
	r.outside, r.behind = slices.DeleteFunc(r.outside, update), slices.DeleteFunc(r.behind, update)
	query := func(p parked) bool { return slices.Contains(tokens, p.token) }
	r.parked, r.fresh, r.fenced = slices.DeleteFunc(r.parked, query), slices.DeleteFunc(r.fresh, query), slices.DeleteFunc(r.fenced, query)
}

// proposeCommand multicasts an update of several partitions to them.
func (r *Replica) proposeCommand(call Call, key updateKey, q *Request) {
	if p := r.byUpdate[key]; p != nil {
		p.tokens = append(p.tokens, call.Token)
		return
	}
	p := &pending{tokens: []uint64{call.Token}, update: key}
	r.crossing[r.send(q.Dest, envelope{Kind: envelopeCommand, From: r.cfg.Partition, Request: call.Data})] = p
	r.byUpdate[key] = p
}

// forgetPending drops a proposal that was delivered.
func (r *Replica) forgetPending(id multicast.MessageID, p *pending, from map[multicast.MessageID]*pending) {
	delete(from, id)
	if r.byUpdate[p.update] == p {
		delete(r.byUpdate, p.update)
	}
}

// propose multicasts a request to the partition's group.
func (r *Replica) propose(call Call, key updateKey, out *Output) {
	if len(r.pending) >= r.cfg.MaxPending {
		out.Replies = append(out.Replies, r.reply(call.Token, Overloaded, nil))
		return
	}
	p := &pending{tokens: []uint64{call.Token}, update: key}
	r.pending[r.multicast(envelope{Kind: envelopeRequest, Request: call.Data})] = p
	if key != (updateKey{}) {
		r.byUpdate[key] = p
	}
}

// multicast hands an envelope to the core in this step.
func (r *Replica) multicast(e envelope) multicast.MessageID {
	r.seq++
	e.Time = posix.Time(r.now.Wall)
	m := multicast.Message{
		ID:      multicast.MessageID{Sender: r.cfg.Self, Seq: r.seq},
		Dest:    []multicast.GroupID{multicast.GroupID(r.cfg.Partition)},
		Payload: e.encode(),
	}
	r.cores.localIn.Proposed = append(r.cores.localIn.Proposed, m)
	return m.ID
}

func (r *Replica) refuse(token uint64, err error, out *Output) {
	out.Replies = append(out.Replies, r.reply(token, Refused, []byte(err.Error())))
}

func (r *Replica) reply(token uint64, s Outcome, result []byte) Call {
	p := Reply{Status: s, Vector: r.vector, Result: result}
	return Call{Token: token, Data: p.Append(make([]byte, 0, len(result)+32))}
}

// counter is how many deliveries were applied.
func (r *Replica) counter() uint64 { return r.vector[r.cfg.Partition].Count }

// parked is a query of a client that has seen more than this replica.
type parked struct {
	token uint64
	until Seen
	query Request
}

// closed reports whether all is decided here that those knew who did what was executed here.
func (r *Replica) closed() bool {
	return r.vector[r.cfg.Partition].Cross.Compare(r.decidedUpTo()) <= 0
}

// seen is what queries can be answered with now.
func (r *Replica) seen() Seen { return Seen{Count: r.counter(), Cross: r.decidedUpTo()} }

// query executes a query, or parks it until this replica has caught up with the client (T 3.4.1).
func (r *Replica) query(token uint64, q Request, out *Output) {
	until := q.Vector.Of(r.cfg.Partition)
	covers := r.seen().Covers(until) && r.closed()
	switch {
	case (q.Fresh || !covers) && len(r.parked)+len(r.fresh)+len(r.fenced) >= r.cfg.MaxPending:
		out.Replies = append(out.Replies, r.reply(token, Overloaded, nil))
		return
	case q.Fresh:
		r.fresh = append(r.fresh, parked{token: token, until: until, query: q})
		return
	case !covers:
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
	c.Session = q.Session
	result := r.machine.Query(&c)
	if r.keys.Err() != nil {
		return Call{}, false
	}
	return r.reply(token, Answered, result.Append(nil)), true
}

// unpark executes the queries that waited for what has now been applied.
func (r *Replica) unpark(replies []Call) []Call {
	if len(r.parked) == 0 {
		return replies
	}
	seen, waiting := r.seen(), r.parked[:0]
	for _, p := range r.parked {
		if !seen.Covers(p.until) || !r.closed() {
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
