package client_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// through returns a state after encoding and decoding.
func through(t *testing.T, s *client.State) *client.State {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	got, err := client.DecodeState(b)
	require.NoError(t, err)
	return got
}

func resume(t *testing.T, n *clienttest.Network, s *client.State) *client.Client {
	t.Helper()
	cfg := n.Config(west)
	cfg.Resume = through(t, s)
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A client that resumes another one has its open files and locks, and sees all that it has seen.
func TestResume(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		old, err := client.New(n.Config(west))
		require.NoError(t, err)
		other := n.Client(t, east)
		f := create(t, old, posix.Root, "f").Ino
		write(t, old, f, 0, make([]byte, 1<<20))
		require.NoError(t, old.Lock(t.Context(), exclusive(f)))
		require.NoError(t, old.Unlink(t.Context(), root, at(posix.Root, "f")))
		s := old.Suspend()
		calls := n.Calls(n.Processes(0, west)...)
		_, err = old.GetAttr(t.Context(), f)
		require.Equal(t, posix.EIO, err)
		require.NoError(t, old.Close())
		require.Equal(t, calls, n.Calls(n.Processes(0, west)...), "it sends nothing more")

		c := resume(t, n, s)
		for range 5 {
			time.Sleep(lease / 2) // fake time
			n.Tick()
		}
		write(t, c, f, 0, []byte("new"))
		write(t, c, f, 1<<20, make([]byte, 1<<20)) // a block with a number of its own
		require.Equal(t, "new", string(read(t, c, f, 0, 3)))
		require.True(t, c.Proofs().Merged().Covers(old.Proofs().Merged()))
		require.Equal(t, posix.EAGAIN, other.Lock(t.Context(), exclusive(f)))
		require.NoError(t, c.Lock(t.Context(), unlocked(exclusive(f))))
		require.NoError(t, other.Lock(t.Context(), exclusive(f)))
		c.Release(f)
		time.Sleep(3 * lease) // fake time
		n.Tick()
		_, err = c.GetAttr(t.Context(), f)
		require.Equal(t, posix.ESTALE, err, "nobody holds it any more")
	})
}

// A client that resumes an older state uses no number that was used since. Nor does a client that resumes
// after its successor has stopped.
func TestResumeOfALateState(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		old, err := client.New(n.Config(west))
		require.NoError(t, err)
		f := create(t, old, posix.Root, "f").Ino
		late := old.Snapshot()
		for range 10 {
			_, err := old.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("x"), Append: true})
			require.NoError(t, err)
		}
		write(t, old, f, 1<<20, []byte("block"))
		old.Suspend()
		c := resume(t, n, late)
		_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("y"), Append: true})
		require.NoError(t, err)
		require.Equal(t, "y", string(read(t, c, f, 1<<20+5, 1)), "it was executed, not taken for an old one")
		c.Suspend()
		old.Resume()
		_, err = old.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("z"), Append: true})
		require.NoError(t, err)
		require.Equal(t, "xxxxxxxxxx", string(read(t, old, f, 0, 10)))
		require.Equal(t, "blockyz", string(read(t, old, f, 1<<20, 7)))
		require.NoError(t, old.Close())
	})
}

func TestResumeOfAnotherCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		create(t, c, posix.Root, "f")
		for _, change := range []func(s *client.State){
			func(s *client.State) { s.Cluster = "x" },
			func(s *client.State) { s.Seen = "!" },
			func(s *client.State) { s.Partitions[0].ID = 99 },
		} {
			cfg := n.Config(west)
			cfg.Resume = c.Snapshot()
			change(cfg.Resume)
			_, err := client.New(cfg)
			require.ErrorContains(t, err, "the state to resume")
		}
	})
}

// FuzzDecodeState: a decoded state can be resumed and encodes to the same state.
func FuzzDecodeState(f *testing.F) {
	for _, seed := range []string{
		`{"format":1}`, `{"format":2}`, `{"format":1,"partitions":[{"id":0,"session":{"id":5,"last":9,"blocks":1},"held":{"7":2},"next":9,"left":3}]}`,
		`{"format":1,"partitions":[{"id":0,"held":{"7":0}}]}`, `{"format":1,"partitions":[{"id":1},{"id":0}]}`, `{"format":1,"seen":"!"}`,
		`{"format":1,"partitions":[{"id":0,"session":{"id":0}}]}`, `{"format":1,"partitions":[{"id":0,"left":99999999}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := client.DecodeState(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		same, err := client.DecodeState(again)
		require.NoError(t, err)
		require.Equal(t, s.Format, same.Format)
		require.Len(t, same.Partitions, len(s.Partitions))
	})
}
