package replica

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/reads"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Keys is the store of a replica: the metadata's keys, committed in batches. Reads include the writes that
// are not committed, and do not fail: the first error sticks, and Commit and Err return it.
type Keys interface {
	meta.Keys
	// Commit makes all writes since the last one durable against a crash of the process; with sync also
	// against a loss of power.
	Commit(sync bool) error
	// Pending returns the bytes of the writes since the last Commit, about.
	Pending() int
	Err() error
	// KeepDigest makes the store keep the digest of its entries, including pending writes, and store it under
	// the key at. part returns the part of the entry with a key that counts.
	KeepDigest(at []byte, part func(key []byte) digest.Part) error
	Digest() digest.Sum
	// Replace replaces all entries by those of fill. It holds a bounded part of them in memory. After an
	// error nothing has changed. The replica must restart then.
	Replace(fill func(set func(key, value []byte) error) error) error
	Correct(difference digest.Sum)
}

// Config of a replica.
type Config struct {
	Partition uint16
	Groups    []multicast.Group // of all partitions, by their ids, with their initial members; see AddGroups
	// Founded is the number of partitions at the creation of the cluster: the first of Groups. 0: all.
	Founded int
	// Shards are the partitions over which the directories of the region are to spread; see SpreadOver.
	Shards      []uint16
	Cluster     []byte // the identity of the cluster: clients of another one are refused; nil: all are accepted
	Self        multicast.ProcessID
	Index       int           // of Self in its group; replicas do optional work at different times by it
	Incarnation uint64        // grows with every start of the process; below 2^31
	Sealer      ask.Sealer    // of the proofs that clients carry; nil: proofs are not verified
	Lease       time.Duration // a session that is silent for longer ends; 0: session.DefaultLease
	MaxPending  int           // bounds each kind of requests that wait; 0: DefaultMaxPending
	// DigestPeriod is the time of the order between two digests of the state; 0: DefaultDigestPeriod. It must
	// be the same at all replicas of a partition: digests of other places cannot be compared.
	DigestPeriod time.Duration
	// Rights gives bound clients the right to read the blocks named in their answers. Nil: storage demands no
	// rights.
	Rights Rights
	// Tickets verifies the inodes that bound clients name. Nil: they may name any number.
	Tickets Tickets
	// TicketsOptional lets bound clients name inodes without tickets, as clients of older versions do.
	TicketsOptional bool
	// Cut is called when the store holds exactly the state of the partition in a backup. Nil: the state is
	// not saved.
	Cut func(backup uint64) error
}

// Rights proves to storage servers that a client may read a block.
type Rights interface {
	// Grant returns the right of the client with a name. It returns the zero value if the right cannot be
	// proven.
	Grant(client string, id posix.BlockID) posix.BlockRight
}

// DefaultMaxPending is the default of Config.MaxPending.
const DefaultMaxPending = 8192

// Replica is one replica of one partition. It implements turn.Node. It is not safe for concurrent use.
type Replica struct {
	cfg      Config
	keys     Keys
	machine  *meta.Machine
	orders   *order.Orders
	sessions *session.Sessions
	cross    *cross.Commands
	queries  *reads.Queries
	notary   notary
	tickets  tickets
	backup   backup

	delegations delegations
	shards

	updates   updates
	watches   watches
	lockWaits lockWaits
	persists  []turn.Call // replies that leave after the next sync of the log
	seats     seats
	progress  progress
	digests   digests
	now       multicast.Instant
}

// New returns a replica with its cores and its store, which have the state at the end of the last process of
// this replica.
// own is the core of the partition's own order, with a single group; between is the core of the order between
// partitions. They must have been made to deliver everything after Positions(keys).
func New(cfg Config, own, between order.Core, keys Keys, machine *meta.Machine) (*Replica, error) {
	if cfg.MaxPending == 0 {
		cfg.MaxPending = DefaultMaxPending
	}
	if cfg.DigestPeriod == 0 {
		cfg.DigestPeriod = DefaultDigestPeriod
	}
	if cfg.Sealer == nil {
		cfg.Sealer = ask.Keys{}
	}
	if cfg.Incarnation >= 1<<31 {
		return nil, fmt.Errorf("replica: incarnation %d: must be below 2^31", cfg.Incarnation)
	}
	r := &Replica{
		cfg: cfg, keys: keys, machine: machine, updates: newUpdates(), notary: notary{sealer: cfg.Sealer},
		tickets: tickets{keys: cfg.Tickets, optional: cfg.TicketsOptional, calls: map[uint64]naming{}},
		orders:  order.New(cfg.Self, multicast.GroupID(cfg.Partition), own, between, cfg.Incarnation<<32),
	}
	err := KeepDigest(keys)
	if err != nil {
		return nil, fmt.Errorf("digest of the store: %w", err)
	}
	if r.progress.stored, err = loadProgress(keys); err != nil {
		return nil, err
	}
	if r.sessions, err = session.Load(keys, cfg.Lease, cfg.Index); err != nil {
		return nil, err
	}
	if r.delegations, err = loadDelegations(r); err != nil {
		return nil, err
	}
	r.shards = shards{orders: r.orders, machine: machine, partitions: len(cfg.Groups), proposal: cfg.Shards}
	r.cross, err = cross.New(cross.Config{
		Partition: cfg.Partition, Self: cfg.Self, Index: cfg.Index, Partitions: cmp.Or(cfg.Founded, len(cfg.Groups)), MaxPending: cfg.MaxPending,
		Recall: r.delegations.recallHere,
	}, keys, machine, r.orders, r.sessions)
	if err != nil {
		return nil, err
	}
	r.queries = reads.New(cfg.Partition, readState{r.cross, &r.delegations})
	_, _ = meta.TakeChanges(machine) // of its initialisation
	_ = meta.TakeReleased(machine)
	r.watches = watches{machine: machine, most: cfg.MaxPending, reply: r.reply, recalled: r.delegations.Recalled}
	r.watches.begin(r.cross.Own(), markOf(r.progress.position))
	r.lockWaits = lockWaits{machine: machine, most: cfg.MaxPending, reply: r.replyTo}
	if r.backup.storedBackup, err = loadBackup(keys); err != nil {
		return nil, err
	}
	r.orders.LearnBackup(r.backup.number)
	// A crash of the process alone may have left writes that a loss of power would undo. The cores forget
	// covered messages.
	if err := keys.Commit(true); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r.cover()
	return r, nil
}

// Vector returns the replica's vector. The caller must not change it.
func (r *Replica) Vector() ask.Vector { return r.cross.Vector() }

// Step takes messages and requests in, lets the orders take their step, and answers the requests that need no
// order.
func (r *Replica) Step(in *turn.Input, out *turn.Output) {
	r.now = in.Now
	r.cross.Begin(in.Now)
	r.notary.begin(in.Now.Mono)
	r.orders.Begin(&in.Input, r.cross.Receive)
	for _, f := range in.Frames {
		if len(f.Data) > 0 {
			r.cross.Received(f.Peer)
		}
	}
	r.resume(out)
	for _, call := range in.Requests {
		r.request(call, out)
	}
	r.withdraw(in.Withdrawn)
	r.maintain(out)
	r.cross.Step()
	out.Replies = r.answers(out.Replies)
	r.orders.Covered(r.progress.covered, r.progress.coveredBetween)
	r.orders.Complete(in.Completions)
	r.orders.Step(r.seats.leads(in.Lead), &out.Output)
	out.Rights, out.Ops = r.orders.Effects(out.Rights, out.Ops)
	if r.orders.Left() {
		r.refuseAll(out)
	}
	r.persist(out)
}

// proposeBarrier orders a barrier for queries, with the newest entry of this partition that one of their
// readers has proven.
func (r *Replica) proposeBarrier(proven ask.Seen) multicast.MessageID {
	return r.orders.Propose(order.Entry{Kind: entryBarrier, Body: proven.Append(nil)})
}

// maintain proposes the maintenance entries of the replica.
func (r *Replica) maintain(out *turn.Output) {
	if r.progress.reapAgain {
		r.progress.reapAgain = false
		r.orders.Propose(order.Entry{Kind: entryReap})
	}
	for _, e := range r.sessions.Silent(r.now.Mono) {
		r.orders.Propose(order.Entry{Kind: entryExpire, Body: encodeExpiry(e)})
	}
	r.queries.Raise(r.now.Mono, r.proposeBarrier)
	r.proposeMarker()
	r.shards.order(r.now.Mono)
	r.endBlocked(out)
	r.delegations.revoke(r.now.Mono)
	if r.delegations.budget.isDue(r.now.Mono) {
		r.updates.resume = r.updates.resume || len(r.updates.blocked) > 0
		r.queries.Reconsider()
		out.Replies = r.answerReady(out.Replies)
	}
	r.queries.Recall(r.delegations.recallFor)
	r.delegations.recallRead(posix.Time(r.now.Wall))
	out.Replies = r.lockWaits.answer(nil, r.now.Mono, r.watches.expire(r.now.Mono, out.Replies))
	r.pursueReplacements()
}

// Wake returns the time of the next step that the replica needs, on Instant.Mono; 0: only after an event.
func (r *Replica) Wake() time.Duration {
	if r.progress.reapAgain || r.updates.resume || len(r.persists) > 0 || r.queries.IsToRecall() {
		return max(r.now.Mono, 1)
	}
	return order.Earliest(r.progress.syncAt, r.progress.commitAt, r.sessions.Wake(), r.cross.Wake(), r.queries.Wake(), r.seats.wake(), r.shards.wakeAt, r.updates.wakeAt, r.watches.wake(), r.lockWaits.wake(), r.delegations.wakeAt, r.delegations.budget.wakeAt)
}

// request routes one request.
func (r *Replica) request(call turn.Call, out *turn.Output) {
	q, err := ask.DecodeRequest(call.Data)
	if err == nil {
		err = call.From.Validate()
	}
	if err == nil && q.Kind == ask.OpenSession && r.cfg.Cluster != nil && !bytes.Equal(q.Command, r.cfg.Cluster) {
		err = errors.New("the client belongs to another cluster, or to one that was here before: mount again")
	}
	var command meta.Command
	if err == nil && (q.Kind == ask.Query || q.Kind == ask.Update) {
		command, err = r.operation(&q, call.From)
	}
	if err == nil {
		err = r.tickets.refuses(&q, call.From)
	}
	if err != nil {
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Refused, []byte(err.Error())))
		return
	}
	if r.orders.Left() && q.Kind != ask.AskStatus {
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Replaced, nil))
		return
	}
	if !r.notary.accepts(q.Proofs) {
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Unproven, nil))
		return
	}
	r.learnBackup(q.Proofs)
	q.Merge()
	code := posix.OK
	if !r.tickets.admits(&call, &q, &command, r.sessions) {
		code = posix.ESTALE
	} else if command.Op == meta.OpLock && hasTooManyLocks(r, &update{call: call, query: q, command: command}) {
		code = posix.ENOLCK
	}
	if code != posix.OK {
		failed := meta.Result{Code: code}
		out.Replies = append(out.Replies, r.replyTo(&q, call.Token, ask.Answered, failed.Append(nil)))
		return
	}
	raised := r.progress.floor.raise(r, &q, call.From)
	if (raised || len(q.Proofs) > 0 || q.Ticketed || len(q.Held) > 0) && q.Kind != ask.Query {
		call.Data = q.Trusted().Append(make([]byte, 0, len(call.Data)))
	}
	switch q.Kind {
	case ask.Query:
		r.query(reads.Query{Call: call, Request: q, Command: command}, out)
	case ask.Persist:
		r.query(reads.Query{Call: call, Request: q, Command: meta.Command{Op: meta.OpStatFS}}, out)
	case ask.Watch:
		out.Replies = r.watches.add(call, q, r.now.Mono, out.Replies)
	case ask.Update:
		r.update(update{call: call, tokens: []uint64{call.Token}, query: q, command: command, since: r.now.Mono}, out)
	case ask.AskStatus:
		s := r.status()
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Answered, s.Append(nil)))
	default:
		r.propose(update{call: call, tokens: []uint64{call.Token}, query: q}, out)
	}
}

// operation decodes the command of a query or an update, and checks it before anything is proposed.
func (r *Replica) operation(q *ask.Request, from *ask.Client) (meta.Command, error) {
	c, err := meta.DecodeCommand(q.Command)
	if err != nil {
		return c, err
	}
	if c.Op.IsUpdate() != (q.Kind == ask.Update) || c.Op.IsPost() {
		return c, fmt.Errorf("operation %d does not fit a request of kind %d", c.Op, q.Kind)
	}
	c.Session, c.Authority, c.Client = q.Session, from.Bounds(), from.Owner()
	if err := checkDelegating(&c, q); err != nil {
		return c, err
	}
	plain(&c)
	return c, checkGarbage(&c, q)
}

func (r *Replica) reply(token uint64, s ask.Outcome, result []byte) turn.Call {
	return r.replyTo(&ask.Request{}, token, s, result)
}

// replyTo returns a reply with a vector that covers the request's: a client needs a single proof after it.
func (r *Replica) replyTo(q *ask.Request, token uint64, s ask.Outcome, result []byte) turn.Call {
	v := r.cross.Vector()
	if !v.Covers(q.Vector) {
		v = v.Clone().Merge(q.Vector)
	}
	p := ask.Reply{Status: s, Vector: v, Tag: r.notary.tag(v, r.orders.Backup()), Result: result}
	p.Tickets = r.tickets.give(token, s, result)
	return turn.Call{Token: token, Data: p.Append(make([]byte, 0, len(result)+64))}
}

// answers adds the replies to calls for updates of several partitions.
func (r *Replica) answers(replies []turn.Call) []turn.Call {
	for _, a := range r.cross.Answers() {
		replies = r.replyAll(a.Tokens, a.Outcome, a.Result, replies)
	}
	return replies
}

func (r *Replica) replyAll(tokens []uint64, s ask.Outcome, result []byte, replies []turn.Call) []turn.Call {
	for _, token := range tokens {
		replies = append(replies, r.reply(token, s, result))
	}
	return replies
}
