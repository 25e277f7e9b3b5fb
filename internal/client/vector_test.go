package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// A client that waits for a token sees all updates that were seen before the token, in all partitions.
func TestTokens(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer, reader, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		f := create(t, writer, local(n, 1), "f").Ino
		create(t, writer, local(n, 2), "g")
		require.NoError(t, reader.Wait(ctx, reader.Token()), "nothing was seen, nothing is waited for")
		write(t, writer, f, 0, []byte("x"))
		rename(t, writer, at(local(n, 1), "f"), at(local(n, 2), "h"))
		token := writer.Token()
		n.Fail(clienttest.Lagging, n.Processes(2, east)[0])
		require.NoError(t, reader.Wait(ctx, token))
		require.Equal(t, f, lookup(t, reader, local(n, 2), "h"))
		require.Zero(t, lookup(t, reader, local(n, 1), "f"))

		for _, bad := range []string{"?", "AAAA", ask.Proofs{{Vector: make(ask.Vector, 9)}}.Token()} {
			require.Equal(t, posix.EINVAL, reader.Wait(ctx, bad))
		}
		ahead := make(ask.Vector, 2)
		ahead[1].Count = 1 << 40
		start := time.Now()
		require.Equal(t, posix.EINVAL, reader.Wait(ctx, ask.Proofs{{Vector: ahead}}.Token()))
		require.Less(t, time.Since(start), time.Second, "a barrier shows that the partition does not have the entries")
		require.Equal(t, f, lookup(t, reader, local(n, 2), "h"), "the client goes on")
	})
}

// The age of reads grows while nothing can be ordered.
func TestStale(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, east)
		create(t, c, posix.Root, "f")
		near := n.Processes(0, east)
		n.Fail(clienttest.Lagging, near[0])
		n.Fail(clienttest.Silent, near[1:]...)
		time.Sleep(90 * time.Second) // fake time
		age, err := c.Stale(t.Context(), posix.Root)
		require.NoError(t, err)
		require.InDelta(t, 90*time.Second, age, float64(client.DefaultRenew+time.Second))
	})
}

// No read of a linearizable client is older than an earlier answer to any client.
func TestLinearizable(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer := n.Client(t, west)
		cfg := n.Config(east)
		cfg.Linearizable = true
		reader, err := client.New(cfg)
		require.NoError(t, err)
		defer reader.Close()
		f := create(t, writer, posix.Root, "f").Ino
		n.Fail(clienttest.Lagging, n.Processes(0, east)[0])
		write(t, writer, f, 0, []byte("x"))
		require.Equal(t, "x", string(read(t, reader, f, 0, 1)))
		rename(t, reader, at(posix.Root, "f"), at(local(n, 1), "f"))
		require.Equal(t, f, lookup(t, reader, local(n, 1), "f"))
		require.Zero(t, lookup(t, reader, posix.Root, "f"))
		n.Fail(clienttest.None, n.Processes(0, east)...)
		n.Check(t)
	})
}

// The vector keys of the servers change twice while a client is away: its proofs are void. Each partition
// confirms its own entry, and the client sees no error. The same holds for servers with different keys.
func TestVectorKeysThatChange(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		ctx := t.Context()
		writer, reader := n.Client(t, west), n.Client(t, east)
		f := create(t, writer, local(n, 1), "f").Ino
		rename(t, writer, at(local(n, 1), "f"), at(local(n, 2), "f"))
		create(t, writer, local(n, 1), "only partition 1 knows of it")
		token, before := writer.Token(), time.Now()

		fresh := ask.Keys{[]byte("a key that was rotated twice")}
		for p := range n.Plan.Partitions {
			n.SetVectorKeys(fresh, n.Processes(uint16(p), west)...)
		}
		time.Sleep(2 * time.Second) // fake time: replicas forget the proofs that they have verified
		n.Tick()
		create(t, writer, local(n, 2), "partition 2 cannot confirm what the client has seen of 1")
		rename(t, writer, at(local(n, 2), "f"), at(posix.Root, "f"))
		n.Fail(clienttest.Lagging, n.Processes(0, east)[0])
		reader.Observe(writer.Proofs())
		require.Equal(t, f, lookup(t, reader, posix.Root, "f"))
		require.Zero(t, lookup(t, reader, local(n, 2), "f"))
		require.NoError(t, reader.Wait(ctx, token), "an old token is asked for")
		require.Less(t, time.Since(before), 30*time.Second)

		n.SetVectorKeys(ask.Keys{[]byte("of one server alone")}, n.Processes(1, east)[0])
		other := n.Client(t, east)
		for i := range 10 {
			name := string(rune('a' + i))
			create(t, other, local(n, 1), name)
			rename(t, other, at(local(n, 1), name), at(local(n, 2), name))
		}
		require.NotZero(t, lookup(t, other, local(n, 2), "a"))
		n.Check(t)
	})
}

// A client that adopts forged proofs of another client is not delayed for long, and harms no client.
func TestMadeUpVectors(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		create(t, c, local(n, 1), "f")
		c.Observe(ask.Proofs{{Vector: ask.Vector{{Count: 1 << 62}, {Count: 1 << 62}, {Count: 1 << 62}}, Tag: []byte("0123456789abcdef")}})
		start := time.Now()
		create(t, c, local(n, 1), "g")
		rename(t, c, at(local(n, 1), "g"), at(local(n, 2), "g"))
		require.NotZero(t, lookup(t, c, local(n, 2), "g"))
		require.Less(t, time.Since(start), 5*time.Second)
		require.NotZero(t, lookup(t, other, local(n, 2), "g"))
		require.Less(t, c.Proofs().Merged().Of(1).Count, uint64(1000))
		n.Check(t)
	})
}
