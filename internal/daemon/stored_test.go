package daemon

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	clientask "github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

var user7 = posix.Cred{UID: 7, GID: 7}

// sharedDirectory makes a directory that every user may write to.
func sharedDirectory(t *testing.T, c *attach.Client, under posix.Ino) posix.Ino {
	t.Helper()
	a, err := c.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: under, Name: "shared"}, 0o777)
	require.NoError(t, err)
	return a.Ino
}

// write orders a write of blocks at the first replica of a partition, until one executes or refuses it.
func (i *intruder) write(p *topology.Partition, seq uint64, ino posix.Ino, blocks ...meta.Block) (clientask.Outcome, posix.Code) {
	i.t.Helper()
	c := meta.Command{Op: meta.OpWrite, Cred: user7, Ino: ino, Blocks: blocks}
	for _, b := range blocks {
		c.Length += uint64(b.Length)
	}
	q := clientask.Request{Kind: clientask.Update, Seq: seq, Session: i.session, Command: c.Append(nil)}
	var reply clientask.Reply
	require.Eventually(i.t, func() bool {
		ctx, cancel := context.WithTimeout(i.t.Context(), 20*time.Second)
		defer cancel()
		var err error
		reply, err = i.exchange(ctx, p.Replicas[0].Process, &q)
		return err == nil && reply.Status != clientask.Overloaded
	}, time.Minute, 10*time.Millisecond)
	if reply.Status != clientask.Answered {
		return reply.Status, 0
	}
	result, err := meta.DecodeResult(reply.Result)
	require.NoError(i.t, err)
	return reply.Status, result.Code
}

// A client for one user cannot write blocks to a file that it has not stored, or that are shorter than it
// claims. Blocks that it has stored before become the content of the file, in a local and in the global
// partition.
func TestAWriteOfBlocksThatAreNotStoredIsRefused(t *testing.T) {
	w := newWorld(t, []topology.Region{"west", "east"}, 3)
	w.certify()
	w.startAll()
	a := w.operator()
	trusted, plan := w.client(a), a.Cluster()
	i := newIntruder(w, 4711)
	bound := w.client(w.access(identity.Client, "narrow"))
	for k := range plan.Partitions[:2] {
		p := &plan.Partitions[k]
		dir := sharedDirectory(t, trusted, p.Root())
		walk(t, bound, p.Root(), "shared")
		victim, err := bound.Create(t.Context(), user7, client.Name{Dir: dir, Name: "f"}, 0o644, 0)
		require.NoError(t, err)
		require.Equal(t, p.ID, victim.Ino.Partition())
		outcome, answered := i.call(p.Replicas[0].Process, &clientask.Request{Kind: clientask.OpenSession, Command: plan.Identity()})
		require.True(t, answered)
		require.Equal(t, clientask.Answered, outcome)

		i.walk(p, "shared", "f")
		content := bytes.Repeat([]byte{byte(k), 3}, 5000)
		id := func(n uint64) posix.BlockID { return posix.MakeBlockID(p.ID, i.session, 1<<24+n) }
		store, err := bound.BlockStore(p.ID)
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), block.New(id(1), content)))

		whole := uint32(len(content))
		for what, blocks := range map[string][]meta.Block{
			"never stored":             {{ID: id(2), Length: 100}},
			"one of two never stored":  {{ID: id(1), Length: whole}, {ID: id(3), Length: 1}},
			"shorter than it is named": {{ID: id(1), Length: whole + 1}},
		} {
			outcome, _ := i.write(p, 1, victim.Ino, blocks...)
			require.Equal(t, clientask.Refused, outcome, what)
		}
		trusted.Observe(bound.Proofs()) // its replica may not have the file yet
		now, err := trusted.GetAttr(t.Context(), victim.Ino)
		require.NoError(t, err)
		require.Zero(t, now.Size)
		outcome, code := i.write(p, 1, victim.Ino, meta.Block{ID: id(1), Length: whole})
		require.Equal(t, clientask.Answered, outcome)
		require.Equal(t, posix.OK, code)
		awaitContent(t, trusted, victim.Ino, content)
		_, err = bound.Write(t.Context(), user7, client.Write{Ino: victim.Ino, Data: bytes.Repeat([]byte{7}, 3<<20)})
		require.NoError(t, err)
		awaitContent(t, trusted, victim.Ino, bytes.Repeat([]byte{7}, 3<<20))
	}
}

// awaitContent waits until a client reads this content of a file.
func awaitContent(t *testing.T, c *attach.Client, ino posix.Ino, want []byte) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := make([]byte, len(want)+1)
		n, err := c.Read(t.Context(), ino, got, 0)
		return err == nil && bytes.Equal(want, got[:n])
	}, time.Minute, 10*time.Millisecond)
}
