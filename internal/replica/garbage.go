package replica

import (
	"errors"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// What a block store has, and nobody needs
//
// A client puts blocks before it orders the write that names them. Some writes never come. A sweep, which
// finds a block in a store, asks the block's home whether it is garbage: whether no extent names it,
// anywhere, nor ever will. A block is garbage if its home has no record of it and it cannot be written any
// more, in a state that is at least as new as the moment at which it was found. It cannot be written any more
// if its session is not open, or its counter is below the session's horizon, which the client moves with its
// renewals.
//
// Proof, by what the order of the home partition has executed up to the answer, S:
//
//	G1  Only an OpWrite in the order of its home makes the first reference to a block; the update must be of
//	    the block's session, which must be open, and its counter not below the horizon; else EINVAL, or
//	    UnknownSession, and nothing changes (applyUpdate, meta's mayName). Commands of several partitions,
//	    relays and posts are no writes. So it does not matter what a client thinks became of a write: one that
//	    is ordered behind the renewal that gave it up has no effect, a repeated or delayed one neither.
//	G2  A session that has ended is never open again (I2: its number is remembered for a week by the order's
//	    time, longer than any copy of its opening lives). A client puts a block only after the opening of its
//	    session was answered, and so ordered. S is newer than the finding of the block, that is newer than its
//	    put, so a session that is not open in S has ended. This is why the answer must be Fresh: in an old
//	    state the session may not be open yet.
//	G3  The horizon of a session only grows (renewSession). So by G1 and G2 a write that is ordered behind S
//	    does not name a block that cannot be written any more in S.
//	G4  If an extent names a block in S or earlier, the home has a record of it from the write on until
//	    OpCollected (I9 of package meta), whether the file is here, has been moved, is open without a name, or
//	    is an orphan: extents change hands only by Move and Rename, to which the block is held, then away;
//	    links and names do not count. Nothing that the home has not decided yet matters: until it decides that
//	    a file leaves it holds the block, and until it decides that it comes the block is away. OpCollected
//	    removes only records in the queue, and these no extent names again: the last reference of a block is
//	    its last for ever (G1 gives the first to a block without a record only), and a post that says it is
//	    gone is sent once it is true.
//	G5  So no record in S, and never written behind S: no extent names the block in S, nor will.
//	G6  All this is said of states of the order, not of replicas: a replica that was replaced, restarted or has
//	    taken over the state of another answers behind a barrier of its own, or does not answer. That a block
//	    was copied to another partition's store, before, while or after its file moved there, or the file did
//	    not come at all, changes nothing: the home is asked about it. An answer stays true, so who deletes may
//	    be slow, and copies that come later are found by a later sweep.

// checkGarbage refuses to say from a state of any age what only a new one can.
func checkGarbage(c *meta.Command, q *ask.Request) error {
	if c.Op == meta.OpGarbage && !q.Fresh {
		return errors.New("what is garbage can only be asked as of now: the query must be fresh")
	}
	return nil
}

// garbage takes out of the answer to OpGarbage what may still be written.
func (r *Replica) garbage(c *meta.Command, result *meta.Result) {
	for i, b := range c.Blocks {
		if r.mayBeWritten(b.ID) {
			result.Data[i] = 0
		}
	}
}

// mayBeWritten reports whether a write that is ordered later may name a block.
func (r *Replica) mayBeWritten(id posix.BlockID) bool {
	horizon, open := r.sessions.Horizon(id.Session())
	return open && id.Counter() >= horizon
}
