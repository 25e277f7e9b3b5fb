package cross

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// fakeCore notes its proposals. Process p+1 is the only member of group p.
type fakeCore struct{ proposed []multicast.Message }

func (c *fakeCore) Replay([]byte) error { return nil }
func (c *fakeCore) Checkpoint() []byte  { return nil }
func (c *fakeCore) Leads() bool         { return true }
func (c *fakeCore) State() []byte       { return nil }

func (c *fakeCore) Members(g multicast.GroupID) []multicast.ProcessID {
	return []multicast.ProcessID{multicast.ProcessID(g) + 1}
}

func (c *fakeCore) Adopt([]byte) ([]byte, multicast.Progress, error) {
	return nil, nil, errors.New("there is nobody else")
}

func (c *fakeCore) Step(in *multicast.Input, _ *multicast.Output) {
	c.proposed = append(c.proposed, in.Proposed...)
}

// node is the commands of one partition of three, over fake cores.
type node struct {
	t            testing.TB
	keys         *kv.Store
	machine      *meta.Machine
	sessions     *session.Sessions
	own, between *fakeCore
	orders       *order.Orders
	*Commands
	mono     time.Duration
	frames   []multicast.Frame // sent in the last step
	answered []Answer
}

func newNode(t testing.TB, partition uint16) *node {
	n := &node{t: t, keys: kv.NewMemory(), own: &fakeCore{}, between: &fakeCore{}}
	n.load(partition)
	require.Equal(t, ask.Answered, n.sessions.Open(7, 0, nil, 0))
	return n
}

// load makes the commands that the keys hold.
func (n *node) load(partition uint16) {
	var err error
	n.machine, err = meta.New(n.keys, meta.Config{Partition: partition})
	require.NoError(n.t, err)
	n.sessions, err = session.Load(n.keys, 0, 0)
	require.NoError(n.t, err)
	n.orders = order.New(multicast.ProcessID(partition+1), multicast.GroupID(partition), n.own, n.between, 0)
	cfg := Config{Partition: partition, Self: multicast.ProcessID(partition + 1), Partitions: 3, MaxPending: 9}
	n.Commands, err = New(cfg, n.keys, n.machine, n.orders, n.sessions)
	require.NoError(n.t, err)
}

// step takes one step, with messages. Its proposals in the own order stay there.
func (n *node) step(messages ...multicast.Frame) {
	n.mono += time.Millisecond
	in := multicast.Input{Now: multicast.Instant{Mono: n.mono, Wall: 1e18}}
	n.Begin(in.Now)
	n.orders.Begin(&in, n.Receive)
	for _, f := range messages {
		n.Receive(f.Peer, f.Data)
		n.Received(f.Peer)
	}
	n.Step()
	n.answered = append(n.answered, n.Answers()...)
	var out multicast.Output
	n.orders.Step(false, &out)
	n.frames = out.Frames
}

// run executes the proposals in the own order.
func (n *node) run() error {
	for _, m := range n.own.proposed {
		n.orders.Delivered(m.ID)
		e, err := order.DecodeEntry(m.Payload)
		require.NoError(n.t, err)
		e.Durable = m.Durable
		if err := n.execute(&e); err != nil {
			return err
		}
	}
	n.own.proposed = nil
	return nil
}

func (n *node) execute(e *order.Entry) error {
	n.Advance(e.Time)
	err := n.Execute(e)
	n.EndEntry()
	n.answered = append(n.answered, n.Answers()...)
	return err
}

// deliver relays a message of the order between partitions.
func (n *node) deliver(m multicast.Message, final multicast.Timestamp) {
	n.orders.Delivered(m.ID)
	n.Relay(&multicast.Delivery{Message: m, Final: final})
	n.step()
	require.NoError(n.t, n.run())
}

// mknod makes a file in the root of a partition. It returns its number.
func (n *node) mknod(name string) posix.Ino {
	root := posix.MakeIno(n.cfg.Partition, 1)
	c := meta.Command{Op: meta.OpMknod, Ino: root, Name: name, Mode: posix.TypeRegular | 0o644}
	r := n.machine.Apply(&c, n.Count())
	require.Equal(n.t, posix.OK, r.Code)
	return r.Attr.Ino
}

// rename returns a call that moves a file between the roots of two partitions.
func rename(seq uint64, from, to uint16, name string, ino posix.Ino) turn.Call {
	c := meta.Command{
		Op: meta.OpRename, Ino: posix.MakeIno(from, 1), Name: name, NewParent: posix.MakeIno(to, 1), NewName: name, Child: ino, Target: to,
	}
	q := ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Dest: []uint16{min(from, to), max(from, to)}, Command: c.Append(nil)}
	return turn.Call{Token: seq, Data: q.Append(nil)}
}

// submit submits a call, and returns the message that is proposed between partitions.
func (n *node) submit(call turn.Call) multicast.Message {
	q, err := ask.DecodeRequest(call.Data)
	require.NoError(n.t, err)
	c, err := meta.DecodeCommand(q.Command)
	require.NoError(n.t, err)
	for p := range uint16(3) { // all are in reach
		n.Received(multicast.ProcessID(p + 1))
	}
	n.Submit(call, q, c)
	n.step()
	require.NotEmpty(n.t, n.between.proposed)
	m := n.between.proposed[0]
	n.between.proposed = n.between.proposed[1:]
	return m
}

// undecided returns partition 0 with one undecided command that it coordinates, one that partition 1
// coordinates, and one that it has committed; and the messages that brought it there.
func undecided(t testing.TB) (n *node, seen [][]byte) {
	n = newNode(t, 0)
	other := newNode(t, 1)
	note := func(frames []multicast.Frame) {
		for _, f := range frames {
			seen = append(seen, messagesOf(t, f)...)
		}
	}
	for i, name := range []string{"committed", "mine", "theirs"} {
		seq, from := uint64(i+1), n
		var m multicast.Message
		if name == "theirs" {
			from = other
			m = other.submit(rename(seq, 1, 0, name, other.mknod(name)))
		} else {
			m = n.submit(rename(seq, 0, 1, name, n.mknod(name)))
		}
		require.EqualValues(t, from.cfg.Self, m.ID.Sender)
		n.deliver(m, multicast.Timestamp(i+1))
		other.deliver(m, multicast.Timestamp(i+1))
		n.step()
		note(n.frames)
		other.step()
		note(other.frames)
		if name == "committed" {
			for _, f := range other.frames {
				for _, message := range messagesOf(t, f) {
					n.step(multicast.Frame{Peer: 2, Data: message})
				}
			}
			require.NoError(t, n.run())
			n.step()
			note(n.frames)
		}
	}
	require.Equal(t, 2, n.Undecided())
	require.Len(t, n.list, 3)
	require.Equal(t, committed, n.list[0].phase)
	return n, seen
}

// messagesOf takes a frame apart.
func messagesOf(t testing.TB, f multicast.Frame) (messages [][]byte) {
	o := order.New(99, 0, &fakeCore{}, &fakeCore{}, 0)
	in := multicast.Input{Frames: []multicast.Frame{f}}
	o.Begin(&in, func(_ multicast.ProcessID, message []byte) { messages = append(messages, message) })
	return messages
}
