package cross

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// reachPatience is the time for which an update waits until a quorum of each party is in reach. After this
// time, its client gets the answer that it must try again.
const reachPatience = 8 * time.Second

// A command that was aborted is proposed again after a pause, which doubles.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// Answer is the answer to the calls with the given tokens. The replica adds its vector when it replies.
type Answer struct {
	Tokens  []uint64
	Outcome ask.Outcome
	Result  []byte
}

// requests are the updates of several partitions at the asked replica: soft state. The request of a relayed
// message belongs to the command.
type requests struct {
	partition  uint16
	maxPending int
	machine    *meta.Machine
	orders     *order.Orders
	sessions   *session.Sessions
	table      *table
	vector     *vector
	gate       *gate
	reach      *reach
	timer      *timer

	queue   queue
	answers []Answer // since the last call of Answers
}

// Submit takes an update of several partitions. The caller has validated it, and found no answer to it.
func (s *requests) Submit(call turn.Call, q ask.Request, command meta.Command) {
	r := &request{
		number: s.queue.next(), call: call, query: q, command: command, tokens: []uint64{call.Token}, since: s.timer.time(),
	}
	r.name = r.update().Name(call.From)
	if q.Patience > 0 {
		r.deadline = s.timer.time() + q.Patience
	}
	if x := s.table.byUpdate(r.update()); x != nil && s.sessions.Has(q.Session, call.From) {
		x.request = x.request.join(r)
		return
	}
	if s.queue.len() >= s.maxPending || s.hasItsShare(call.From) {
		s.reply(r, ask.Overloaded, nil)
		return
	}
	s.queue.add(r)
	s.timer.hurry()
}

// undecidedParts divides maxPending into the shares of bound clients: a share is for waiting and undecided
// updates together. An undecided command holds names and inodes in all its partitions, and others wait for
// these.
const undecidedParts = 128

// hasItsShare reports whether a bound client has its maximal number of updates here. Each replica counts only
// the updates that it received itself.
func (s *requests) hasItsShare(client *ask.Client) bool {
	if client.Bounds() == nil {
		return false
	}
	n := 0
	for _, r := range slices.Concat(s.queue.toPropose(), s.inFlight()) {
		if r.call.From.Owner() == client.Owner() {
			n++
		}
	}
	return n >= max(1, s.maxPending/undecidedParts)
}

// Withdraw removes calls that their clients have given up. An update without calls is not proposed, and not
// proposed again.
func (s *requests) Withdraw(tokens []uint64) {
	withdrawn := func(token uint64) bool { return slices.Contains(tokens, token) }
	toPropose := s.queue.toPropose()
	for _, r := range slices.Concat(toPropose, s.inFlight()) {
		r.tokens = slices.DeleteFunc(r.tokens, withdrawn)
	}
	for _, r := range toPropose {
		if len(r.tokens) == 0 {
			s.queue.drop(r)
		}
	}
}

// TakeCalls removes and returns the tokens of all calls, in a fixed order.
func (s *requests) TakeCalls() (tokens []uint64) {
	for _, r := range slices.Concat(s.queue.toPropose(), s.inFlight()) {
		tokens = append(tokens, r.tokens...)
	}
	for _, x := range s.table.all() {
		x.request = nil
	}
	s.queue = newQueue()
	return tokens
}

// inFlight returns the requests that are proposed or have an undecided command, in a fixed order.
func (s *requests) inFlight() []*request {
	all := s.queue.underWay()
	for _, x := range s.table.all() {
		if x.request != nil {
			all = append(all, x.request)
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

// step proposes the updates with parties in reach and free objects. It ends those with ended calls.
func (s *requests) step() {
	flying, toPropose := s.inFlight(), s.queue.toPropose()
	if len(flying)+len(toPropose) == 0 {
		return
	}
	earlier := newObjects()
	for _, r := range flying {
		earlier.add(r, s.sessions.Has(r.query.Session, r.call.From))
		if r.isOver(s.timer.time()) {
			s.proposeAbandon(r)
		} else if r.deadline != 0 {
			s.timer.wakeBy(r.deadline)
		}
	}
	slices.SortStableFunc(toPropose, olderFirst)
	for _, r := range toPropose {
		if v := s.sessions.Admit(r.update(), r.call.From); !v.Execute && s.sessions.Has(r.query.Session, nil) {
			s.end(r, v.Outcome, v.Answer)
			continue
		}
		s.admit(r, earlier.delay(r))
		earlier.add(r, s.sessions.Has(r.query.Session, r.call.From))
	}
}

// admit proposes an update, or sets the time of its next try. An update is delayed if an earlier one of its
// objects comes first.
func (s *requests) admit(r *request, delayed bool) {
	own, now := r.query.Reader(s.partition), s.timer.time()
	switch {
	case r.isOver(now):
		s.proposeAbandon(r)
	case now < r.notUntil:
		s.timer.wakeBy(r.notUntil)
	case own.LastOpen() > s.vector.Count() && now-r.since < ask.DoubtAfter:
		// The client has seen the commit of a command whose vote this replica has not executed yet.
		s.timer.wakeBy(r.since + ask.DoubtAfter)
	case !s.reach.pingSilent(r.query.Dest):
		s.awaitReach(r)
	case delayed || s.table.Awaits(own, &r.command) || s.yields(r):
		r.unreachableSince = 0
		s.timer.wakeBy(now + repeatAfter)
	default:
		s.propose(r)
	}
}

// awaitReach lets an update wait for parties that are out of reach, for a while.
func (s *requests) awaitReach(r *request) {
	switch now := s.timer.time(); {
	case r.unreachableSince == 0:
		r.unreachableSince = max(now, 1)
	case now-r.unreachableSince > reachPatience:
		s.end(r, ask.Overloaded, nil)
	}
}

// yields reports whether an update is not proposed now because a command holds its objects here. An update
// that is older than all holders does not yield: it waits for them in the order, and is executed next.
// Otherwise new updates could always come first. An update without an age is proposed after it has yielded
// for repeatAfter, and gets its age by that.
func (s *requests) yields(r *request) bool {
	holders := s.machine.Conflicts(0, &r.command, r.query.Dest).Holders
	if len(holders) == 0 || r.age == (Age{}) && s.timer.time()-r.since >= repeatAfter {
		return false
	}
	return r.age == (Age{}) || s.table.isYounger(r.age, holders)
}

// propose multicasts an update to its parties.
func (s *requests) propose(r *request) {
	p := proposal{coordinator: s.partition, age: r.age, attempt: r.attempt, client: r.call.From, request: r.call.Data}
	s.queue.propose(r, s.orders.Multicast(r.query.Dest, order.Entry{Kind: EntryCommand, Body: p.encode()}))
	r.unreachableSince = 0
	if r.deadline != 0 {
		s.timer.wakeBy(r.deadline)
	}
}

// proposeAbandon orders the end of an update, once.
func (s *requests) proposeAbandon(r *request) {
	if !s.orders.Pending(r.abandoning) {
		r.abandoning = s.Abandon(r.name)
	}
}

// Abandon orders ETIMEDOUT as the answer to an update, unless the update is answered before.
func (s *requests) Abandon(update session.Name) multicast.MessageID {
	return s.gate.propose(EntryAbandon, appendAbandoned(nil, update))
}

// begin assigns to a relayed command the calls that wait for it at this replica.
func (s *requests) begin(x *command) { x.request = s.queue.begun(x.id) }

// retry puts the calls that wait for an aborted command back among the updates that are to be proposed, with
// their age.
func (s *requests) retry(x *command) {
	r := x.request
	x.request = nil
	if r == nil || len(r.tokens) == 0 {
		return
	}
	r.age = x.age
	r.notUntil = s.timer.time() + min(firstPause<<min(r.attempt, 7), maxPause)
	r.attempt = min(r.attempt+1, 100)
	s.queue.add(r)
}

// answer replies to the calls that wait for a command at this replica.
func (s *requests) answer(x *command, outcome ask.Outcome, result []byte) {
	if x.request != nil {
		s.reply(x.request, outcome, result)
		x.request = nil
	}
}

// abandon ends an update that is not relayed.
func (s *requests) abandon(update session.Name, v session.Verdict) {
	if r := s.queue.find(update); r != nil {
		s.end(r, v.Outcome, v.Answer)
	}
}

// end removes a request, and replies to its calls.
func (s *requests) end(r *request, outcome ask.Outcome, result []byte) {
	s.queue.drop(r)
	s.reply(r, outcome, result)
}

func (s *requests) reply(r *request, outcome ask.Outcome, result []byte) {
	s.answers = append(s.answers, Answer{r.tokens, outcome, result})
}

// Answers returns the answers since the last call. They are valid until the next call of another method.
func (s *requests) Answers() []Answer {
	answers := s.answers
	s.answers = s.answers[:0]
	return answers
}
