package replica

import (
	"errors"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/session"
)

// Garbage in block stores
//
// A client stores blocks before it orders the write that names them, and some of these writes never come. A
// sweep finds blocks in a block store, and asks the home of each block whether the block is garbage: no
// extent names it anywhere, now or later. A block is garbage if its home has no record of it and it cannot be
// written any more, in a state at least as new as the moment at which the sweep found it. It cannot be
// written any more if its session is not open, or if its counter is below the session's horizon. The client
// raises the horizon with its renewals.
//
// Proof. S is the state after the entries that the home partition has executed up to the answer.
//
//	G1  Only an OpWrite in the order of its home makes the first reference to a block; the update must be of
//	    the block's session, which must be open, and its counter not below the horizon; else EINVAL, or
//	    UnknownSession, and nothing changes (applyUpdate, meta's mayName). Commands of several partitions,
//	    relays and posts are no writes. So it does not matter whether the client has given a write up: if the
//	    write is ordered after the renewal that raised the horizon, it has no effect. The same is true of a
//	    repeated or delayed write.
//	G2  A session that has ended is never open again (I2: its number is remembered for a week by the order's
//	    time, longer than any copy of its opening lives). A client puts a block only after the opening of its
//	    session was answered, and so ordered. S is newer than the finding of the block, that is newer than its
//	    put, so a session that is not open in S has ended. This is why the answer must be Fresh: in an old
//	    state the session may not be open yet.
//	G3  The horizon of a session only grows (session.Sessions.Renew). So by G1 and G2 a write that is ordered
//	    after S does not name a block that cannot be written any more in S.
//	G4  If an extent names a block in S or earlier, the home has a record of it from the write on until
//	    OpCollected (I9 of package meta), whether the file is here, has been moved, is open without a name, or
//	    is an orphan: extents change hands only by Move and Rename, to which the block is held, then away;
//	    links and names do not count. Decisions that the home has not made yet do not matter: until it decides
//	    that a file leaves, it holds the block; until it decides that a file comes, the block is away.
//	    OpCollected removes only records in the queue, and no extent names these again: the last reference of
//	    a block is its last for ever (G1 gives the first one only to a block without a record), and the post
//	    about the end of the last reference is sent only after that end.
//	G5  So if S has no record of a block, and no write behind S can name it: no extent names it in S or later.
//	G6  All claims are about states of the order, not of replicas: a replica that was replaced, restarted or
//	    has taken over the state of another answers behind a barrier of its own, or does not answer. Copies of
//	    a block in another partition's store, made before, during or after a move of its file there, or
//	    without such a move, change nothing: the sweep asks the home. An answer stays true, so the deletion
//	    may be late; a later sweep finds later copies.

// checkGarbage refuses a garbage query that is not Fresh, because only a state newer than the query can
// answer it.
func checkGarbage(c *meta.Command, q *ask.Request) error {
	if c.Op == meta.OpGarbage && !q.Fresh {
		return errors.New("what is garbage can only be asked as of now: the query must be fresh")
	}
	return nil
}

// garbage removes from the answer to OpGarbage the blocks that may still be written.
func (r *Replica) garbage(c *meta.Command, result *meta.Result) {
	for i, b := range c.Blocks {
		if horizon, open := r.sessions.Horizon(b.ID.Session()); open && b.ID.Counter() >= horizon {
			result.Data[i] = 0 // a write that is ordered later may name it
		}
	}
}

// Admit decides whether an update is to be executed, in the present state. The server uses it before it
// checks that the blocks of a write are stored: that check is only meaningful while the session is open,
// because before that the blocks may be garbage.
func (r *Replica) Admit(u session.Update, from *ask.Client) session.Verdict {
	return r.sessions.Admit(u, from)
}
