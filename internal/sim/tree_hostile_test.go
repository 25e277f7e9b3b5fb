package sim

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// TestTreeHostile: a client with a narrow certificate sends every request that it may encode, and many that
// it may not, while the others work under all faults. They notice nothing: their answers fit one order, and
// all of them finish.
func TestTreeHostile(t *testing.T) {
	reach := treeReach{}
	seeds(t, 25, func(seed uint64) error { return treeRun(seed, treeSetup{hostile: true}).judge(reach) })
	reach.require(t, hostileUnproven, hostileUnseen, hostileRefused, hostileAnswered, hostileDenied)
}

const (
	hostileUnproven treeMark = "a forged proof was found"
	hostileUnseen   treeMark = "a false claim was found"
	hostileRefused  treeMark = "a hostile request was malformed"
	hostileAnswered treeMark = "a hostile query was answered"
	hostileDenied   treeMark = "a hostile update was executed, and denied"
)

// Every session from hostileSession on belongs to an intruder.
const hostileSession = 1 << 40

// intruding is the intruder as its certificate names it. It may act for a user without files.
var intruding = &ask.Client{Name: "intruder", Authority: &posix.Authority{
	UIDs: []posix.IDs{{First: 1 << 30, Last: 1 << 30}}, GIDs: []posix.IDs{{First: 1 << 30, Last: 1 << 30}},
}}

func isHostile(from *ask.Client) bool { return from != nil && from.Name == intruding.Name }

// intruder sends hostile requests to all replicas.
type intruder struct {
	run    *tree
	stolen ask.Proofs // proofs of replies, to itself and to others
	seq    uint64
}

// intrude lets an intruder work until the faults end.
func (r *tree) intrude() {
	x := &intruder{run: r}
	for p := range treeGroups {
		for range 3 {
			x.send(uint16(p), &ask.Request{Kind: ask.OpenSession, Session: hostileSession + uint64(p)})
		}
	}
	var again func()
	again = func() {
		if r.net.Now() > treeFaults {
			for p := range treeGroups {
				x.leave(uint16(p))
			}
			return
		}
		p := uint16(x.pick(len(treeGroups)))
		x.send(p, x.request(p))
		r.net.Schedule(r.net.Now()+r.net.between(time.Millisecond, 40*time.Millisecond), again)
	}
	r.net.Schedule(200*time.Millisecond, again)
}

// leave closes the session of a partition: its inodes could block the others at the end.
func (x *intruder) leave(p uint16) {
	q := ask.Request{Kind: ask.CloseSession, Session: hostileSession + uint64(p)}
	to := x.run.groups[p].members[0]
	x.run.net.Call(to, turn.Call{Data: q.Append(nil), From: intruding}, time.Second, func(answer []byte, ok bool) {
		if reply, err := ask.DecodeReply(answer); !ok || err != nil || reply.Status == ask.Overloaded {
			x.leave(p)
		}
	})
}

func (x *intruder) pick(n int) int { return x.run.net.Rand().IntN(n) }

func (x *intruder) large() uint64 { return uint64(1) << (20 + x.pick(43)) }

// headBytes is the length of the kind and the session of a request. A flipped bit there would open sessions
// that are never closed.
const headBytes = 8

// send sends a request; some requests have one flipped bit. In an update that bit is before the command: a
// changed command could be one that every user may execute, such as a SetAttr without attributes.
func (x *intruder) send(p uint16, q *ask.Request) {
	data := q.Append(nil)
	end := len(data)
	if q.Kind == ask.Update {
		end -= len(q.Command)
	}
	if x.pick(8) == 0 && end > headBytes {
		data[headBytes+x.pick(end-headBytes)] ^= 1 << x.pick(8)
	}
	members := x.run.groups[p].members
	to := members[x.pick(len(members))]
	x.run.net.Call(to, turn.Call{Data: data, From: intruding}, 500*time.Millisecond, x.learn)
}

// learn takes the answer to a hostile request.
func (x *intruder) learn(answer []byte, ok bool) {
	if !ok {
		return
	}
	reply, err := ask.DecodeReply(answer)
	if err != nil {
		x.run.fail("reply to an intruder: %w", err)
		return
	}
	switch reply.Status {
	case ask.Unproven:
		x.run.reach[hostileUnproven]++
	case ask.Unseen:
		x.run.reach[hostileUnseen]++
	case ask.Refused:
		x.run.reach[hostileRefused]++
	case ask.Answered:
		x.run.reach[hostileAnswered]++
	}
	if len(reply.Vector) > 0 && len(x.stolen) < 32 {
		x.stolen = append(x.stolen, ask.Proof{Vector: reply.Vector, Tag: reply.Tag})
	}
}

// request makes up a request to a partition.
func (x *intruder) request(p uint16) *ask.Request {
	kinds := []ask.Kind{ask.Query, ask.Update, ask.Update, ask.Update, ask.RenewSession, ask.CloseSession, ask.OpenSession, ask.AskStatus}
	q := &ask.Request{Kind: kinds[x.pick(len(kinds))], Session: hostileSession + uint64(p), Fresh: x.pick(4) == 0}
	// Another client's session; nobody can guess a session that is not open yet.
	if x.pick(3) == 0 && q.Kind != ask.OpenSession {
		c := x.run.clients[x.pick(len(x.run.clients))]
		q.Session = c.session[p]
		x.stolen = append(c.proofs[:len(c.proofs):len(c.proofs)], x.stolen...)
	}
	switch q.Kind {
	case ask.Query:
		q.Command = (&meta.Command{Op: meta.OpGetAttr, Ino: x.inode(p)}).Append(nil)
	case ask.Update:
		x.update(p, q)
	case ask.RenewSession:
		q.Horizon = x.large()
		for range x.pick(5) {
			q.Held = append(q.Held, x.inode(p))
		}
	case ask.CloseSession:
		if q.Session >= hostileSession && x.pick(20) > 0 {
			q.Kind = ask.OpenSession // so that a session is mostly open
		}
	}
	x.show(q)
	return q
}

func (x *intruder) inode(p uint16) posix.Ino {
	return posix.MakeIno(uint16(x.pick(len(treeGroups))), uint64(1+x.pick(4)*x.pick(30)))
}

// update makes up an update. It must not change anything: the user owns nothing, and root owns the roots.
func (x *intruder) update(p uint16, q *ask.Request) {
	x.seq++
	q.Seq, q.Done = x.seq, x.seq-1-uint64(x.pick(2))*min(x.seq-1, 5)
	if x.pick(8) == 0 {
		q.Seq, q.Done = x.large(), x.large()
	}
	if x.pick(2) == 0 {
		q.Dest = []uint16{0, 1, 2}[x.pick(2):]
	}
	if x.pick(8) == 0 {
		q.Dest = []uint16{uint16(x.pick(3)), uint16(3 + x.pick(60000))}
	}
	q.Patience = time.Duration(x.pick(2)) * 100 * time.Millisecond
	uid := intruding.Authority.UIDs[0].First
	if x.pick(4) == 0 {
		uid = 0
	}
	here, there := posix.MakeIno(p, 1), posix.MakeIno(uint16(x.pick(len(treeGroups))), 1)
	c := meta.Command{Cred: posix.Cred{UID: uid, GID: uid}, Ino: here, Name: string(rune('a' + x.pick(6)))}
	switch x.pick(6) {
	case 0:
		c.Op, c.Mode, c.Flags = meta.OpMknod, posix.TypeRegular|0o644, meta.Exclusive
	case 1:
		c.Op, c.NewParent, c.NewName, c.Child = meta.OpRename, there, c.Name, x.inode(p)
		c.Target = uint16(x.pick(4))
	case 2:
		c.Op, c.NewParent, c.NewName, c.Child = meta.OpLink, there, c.Name, x.inode(p)
	case 3:
		c.Op, c.Name, c.Set, c.Attr.Mode = meta.OpSetAttr, "", meta.SetMode, 0o777
	case 4:
		c.Op, c.Name = meta.OpWrite, ""
		c.Offset, c.Data = x.large(), []byte("x")
	default:
		c.Op = meta.OpUnlink
	}
	q.Command = c.Append(nil)
}

// show adds forged, altered, stolen and valid proofs to a request, and claims.
func (x *intruder) show(q *ask.Request) {
	if x.pick(3) == 0 {
		q.Claim = ask.Seen{Count: x.large(), Known: 0}
		if x.pick(2) == 0 {
			q.Claim.OpenUpTo = q.Claim.Count
		}
		if x.pick(4) == 0 {
			q.Claim = ask.Seen{Count: x.large(), History: x.large()}
		}
	}
	forged := make(ask.Vector, 1+x.pick(6))
	for i := range forged {
		forged[i] = ask.Seen{Count: x.large(), Open: []uint64{1 + uint64(x.pick(50))}, History: uint64(x.pick(2)) << 40}
	}
	switch stolen := x.stolen; {
	case x.pick(3) == 0:
		q.Proofs = ask.Proofs{{Vector: forged, Tag: make([]byte, x.pick(20))}}
	case len(stolen) > 0 && x.pick(2) == 0:
		q.Proofs = ask.Proofs{{Vector: forged, Tag: stolen[x.pick(len(stolen))].Tag}}
	case len(stolen) > 0:
		q.Proofs = ask.Proofs{stolen[x.pick(len(stolen))], stolen[x.pick(len(stolen))]}
	}
}

// deny checks that an update of an intruder has changed nothing.
func (n *treeNode) deny(name updateName, code posix.Code) {
	if n.run.reach[hostileDenied]++; code == posix.OK {
		n.run.fail("replica %d executes update %+v of an intruder", n.self, name)
	}
}
