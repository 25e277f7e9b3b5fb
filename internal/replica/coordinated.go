package replica

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// coordinated is a command of several partitions that was relayed here and that some party may still ask about. What
// stands above the gap is replicated state.
type coordinated struct {
	number  uint64
	at      place
	prev    place // the one relayed before
	parties []uint16
	asked   uint16 // the partition that answers the client
	session uint64
	seq     uint64
	done    uint64
	vote    []byte // of this partition
	decided bool

	votes    map[uint16][]byte   // of the others, as far as heard
	past     map[uint16]bool     // others that have decided
	tokens   []uint64            // clients that wait for the outcome at this replica
	told     bool                // the others were told what this partition has to say
	proposed multicast.MessageID // its decision, or that it is to be forgotten
	retryAt  time.Duration
}

const coordinatedPrefix = byte(0x43)

func coordinatedKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{coordinatedPrefix}, number)
}

func (r *Replica) saveCoordinated(c *coordinated) {
	b := ask.AppendPosition(ask.AppendPosition(nil, c.at), c.prev)
	b = appendPartitions(b, c.parties)
	b = varint.AppendUint(b, c.asked)
	b = varint.AppendUint(b, c.session)
	b = varint.AppendUint(b, c.seq)
	b = varint.AppendUint(b, c.done)
	b = varint.AppendBytes(b, c.vote)
	r.keys.Set(coordinatedKey(c.number), varint.AppendUint(b, varint.Bit(c.decided)))
}

func (r *Replica) loadCoordinated() error {
	for k, v := range r.keys.Scan([]byte{coordinatedPrefix}, []byte{coordinatedPrefix + 1}) {
		rd := varint.NewReader(v)
		c := &coordinated{
			at: ask.ReadPosition(rd), prev: ask.ReadPosition(rd), parties: readPartitions(rd), asked: rd.Uint16(),
			session: rd.Uint64(), seq: rd.Uint64(), done: rd.Uint64(), vote: slices.Clone(rd.Bytes()), decided: rd.Uint(1) != 0,
		}
		if rd.Done() != nil || len(k) != 9 {
			return fmt.Errorf("stored command of several partitions %x: %w", k, varint.ErrMalformed)
		}
		c.number = binary.BigEndian.Uint64(k[1:])
		r.remember(c)
	}
	return nil
}

func (r *Replica) remember(c *coordinated) {
	c.votes, c.past = map[uint16][]byte{}, map[uint16]bool{}
	for from, h := range r.early[c.at] {
		r.heardVote(c, from, h)
		r.earlyBytes -= len(h.vote)
	}
	delete(r.early, c.at)
	r.commands = append(r.commands, c)
	r.byPlace[c.at] = c
}

// decidedUpTo is the place in the order between partitions up to which all is decided here.
func (r *Replica) decidedUpTo() place {
	for _, c := range r.commands {
		if !c.decided {
			return c.prev
		}
	}
	return r.relayed
}

// prepare executes a relayed client's command as far as this partition can alone: it votes.
func (r *Replica) prepare(e *envelope, d *relay, replies []turn.Call) []turn.Call {
	q, err := ask.DecodeRequest(e.Request)
	if err != nil || q.Kind != ask.Update {
		return replies // a proposer of another version: without effect, at each party alike
	}
	if replies, done := r.executeUncoordinated(e, d, &q, replies); done {
		return replies
	}
	r.crossings++
	c := &coordinated{
		number: r.crossings, at: d.At, prev: d.Prev, parties: slices.Clone(d.Dest), asked: e.From,
		session: q.Session, seq: q.Seq, done: q.Done,
	}
	if p := r.crossing[d.At.ID]; p != nil {
		c.tokens = p.tokens
		r.forgetPending(d.At.ID, p, r.crossing)
	}
	outcome := ask.Answered
	if c.asked == r.cfg.Partition {
		outcome, replies = r.admit(c, e.Client, replies)
	}
	c.vote = r.vector.Append([]byte{byte(outcome)})
	if outcome == ask.Answered {
		r.observe(q.Vector)
		command, err := meta.DecodeCommand(q.Command)
		if err != nil || command.Op.IsPost() {
			command = meta.Command{} // no operation: refused by each party
		}
		command.Time, command.Session, command.Authority = e.Time, q.Session, e.Client.Bounds()
		c.vote = append(c.vote, r.machine.Prepare(c.number, &command, c.parties)...)
	} else {
		c.decided = true
	}
	r.remember(c)
	r.saveCoordinated(c)
	r.pursueNow()
	return replies
}

// admit looks whether the session allows the command, here where its answer is kept. A repeated one is
// refused, and who waits for it waits for the first.
func (r *Replica) admit(c *coordinated, client *ask.Client, replies []turn.Call) (ask.Outcome, []turn.Call) {
	s := r.sessions[c.session]
	if s == nil || !s.admits(client) {
		return ask.UnknownSession, r.answerAll(c.tokens, ask.UnknownSession, nil, replies)
	}
	if answer, ok := s.answers[c.seq]; ok {
		return ask.Refused, r.answerAll(c.tokens, ask.Answered, answer, replies)
	}
	if c.seq <= s.done {
		return ask.Refused, r.answerAll(c.tokens, ask.Refused, []byte("update: the client has said that it has the answer"), replies)
	}
	if first := r.undecided(updateKey{session: c.session, seq: c.seq}); first != nil {
		first.tokens = append(first.tokens, c.tokens...)
		return ask.Refused, replies
	}
	return ask.Answered, replies
}

// undecided finds the command that executes an update, if it waits for its decision.
func (r *Replica) undecided(key updateKey) *coordinated {
	for _, c := range r.commands {
		if !c.decided && c.asked == r.cfg.Partition && c.session == key.session && c.seq == key.seq {
			return c
		}
	}
	return nil
}

// decide ends an undecided command with the votes of all parties.
func (r *Replica) decide(e *envelope, replies []turn.Call) []turn.Call {
	c := r.byPlace[e.At]
	if c == nil || c.decided || len(e.Votes) != len(c.parties) {
		return replies // a second decision
	}
	votes, seen, agreed := openVotes(e.Votes)
	result := r.machine.Decide(c.number, votes, r.counter())
	invariant.Check(agreed || result.Code == posix.EREMOTE, "command %v: a party refused it, and it ended with %v", c.at, result.Code)
	r.observe(seen)
	c.decided = true
	c.votes = nil
	for _, p := range c.parties {
		r.sawCross(p, c.at)
	}
	if c.asked == r.cfg.Partition {
		answer := result.Append(nil)
		if s := r.sessions[c.session]; s != nil {
			r.rememberAnswer(s, c.seq, c.done, answer)
		}
		replies = r.answerAll(c.tokens, ask.Answered, answer, replies)
		c.tokens = nil
	}
	r.saveCoordinated(c)
	c.told, c.retryAt = false, 0
	r.pursueNow()
	return replies
}

// openVotes gives what the machine needs of votes, and all that the parties had seen when they voted: what the command does
// here may follow from that. Not agreed: some party has refused.
func openVotes(all [][]byte) (votes [][]byte, seen ask.Vector, agreed bool) {
	for _, v := range all {
		rd := varint.NewReader(v)
		outcome := ask.Outcome(rd.Uint8())
		vector := ask.ReadVector(rd)
		if rd.Err() != nil || outcome != ask.Answered {
			return nil, nil, false
		}
		seen = seen.Merge(vector)
		votes = append(votes, rd.Rest())
	}
	return votes, seen, true
}

// forget drops commands that all parties have decided.
func (r *Replica) forget(places []place) {
	for _, at := range places {
		c := r.byPlace[at]
		if c == nil || !c.decided {
			continue
		}
		delete(r.byPlace, at)
		r.commands = slices.DeleteFunc(r.commands, func(o *coordinated) bool { return o == c })
		r.keys.Delete(coordinatedKey(c.number))
	}
}

func (r *Replica) answerAll(tokens []uint64, s ask.Outcome, result []byte, replies []turn.Call) []turn.Call {
	for _, token := range tokens {
		replies = append(replies, r.reply(token, s, result))
	}
	return replies
}
