package replica

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/turn"
)

// A command that makes something in another partition than its directory needs no votes (T 3.4.1, uncoordinated): each of
// the two partitions executes it alone when it is relayed there; meta's made.go says why both come to the same. To the order
// between partitions it is decided at once, so decidedUpTo passes it.
//
// Who has the answer of the directory's partition, or has seen the name there, has a vector with the command's place for the other
// one: what it asks there waits until the inode is made. There is no other way to come by its number, so linearizable reads need
// no more than that: no answer waits for the inode's partition, and who asks that one alone cannot tell.
//
// Whatever the directory's partition refuses it has unmade by a post: also what its session does not allow. A
// message that repeats one that is remembered is passed over, at both: the first one has used up the number. If a repeated one is not
// recognized, because the session has ended or the client is done with the update, the post names this message, not the first, and
// unmakes nothing. Effect, answer and post are of one batch, so a restart finds all of them or executes the relay again.

// executeUncoordinated does the part of this partition, if e is such a command.
func (r *Replica) executeUncoordinated(e *envelope, d *relay, q *ask.Request, replies []turn.Call) ([]turn.Call, bool) {
	command, err := meta.DecodeCommand(q.Command)
	command.Time, command.Session, command.Authority = e.Time, q.Session, e.Client.Bounds()
	if err != nil || !command.IsUncoordinated(e.From, d.Dest) {
		return replies, false
	}
	if e.From == r.cfg.Partition {
		return r.enter(&command, d, e, q, replies), true
	}
	r.observe(q.Vector)
	r.machine.Make(&command, d.message())
	r.sawCross(e.From, d.At)
	return replies, true
}

// message names a relayed message for ever.
func (d *relay) message() []byte { return ask.AppendPosition(nil, d.At) }

// enter decides a command at its directory, and answers it.
func (r *Replica) enter(command *meta.Command, d *relay, e *envelope, q *ask.Request, replies []turn.Call) []turn.Call {
	c := &coordinated{at: d.At, asked: r.cfg.Partition, session: q.Session, seq: q.Seq, done: q.Done}
	if p := r.crossing[d.At.ID]; p != nil {
		c.tokens = p.tokens
		r.forgetPending(d.At.ID, p, r.crossing)
	}
	repeated := r.remembers(updateKey{session: q.Session, seq: q.Seq})
	outcome, replies := r.admit(c, e.Client, replies)
	switch {
	case outcome == ask.Answered:
		r.observe(q.Vector)
		result := r.machine.Enter(command, d.message())
		r.sawCross(command.Target, d.At)
		answer := result.Append(nil)
		r.rememberAnswer(r.sessions[c.session], c.seq, c.done, answer)
		replies = r.answerAll(c.tokens, ask.Answered, answer, replies)
	case !repeated:
		r.machine.Disown(command, d.message())
	}
	r.pursueNow()
	return replies
}

// remembers reports whether an update is known to have been ordered before.
func (r *Replica) remembers(key updateKey) bool {
	if s := r.sessions[key.session]; s != nil {
		if _, answered := s.answers[key.seq]; answered {
			return true
		}
	}
	return r.undecided(key) != nil
}
