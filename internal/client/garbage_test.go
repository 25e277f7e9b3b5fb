package client_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// garbage queries the home of blocks, which must be one.
func garbage(t *testing.T, c *client.Client, blocks ...block.ID) []bool {
	t.Helper()
	is, err := c.Garbage(t.Context(), blocks[0].Partition(), blocks)
	require.NoError(t, err)
	return is
}

// dropped returns the blocks in a partition's queue.
func dropped(t *testing.T, c *client.Client, partition uint16) (ids []block.ID) {
	t.Helper()
	page, usage, err := c.DroppedBlocks(t.Context(), partition, 0, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.EqualValues(t, len(page), usage.Dropped)
	for _, d := range page {
		ids = append(ids, d.ID)
	}
	return ids
}

// A block that was overwritten is dropped, waits for its time, and is collected once.
func TestCollect(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, bytes.Repeat([]byte{1}, 2<<20))
		old := ids(t, stores[0])
		start := time.Now()
		time.Sleep(time.Minute) // fake time
		write(t, c, f, 0, bytes.Repeat([]byte{2}, 2<<20))
		require.Equal(t, old, dropped(t, c, 0))
		page, usage, err := c.DroppedBlocks(t.Context(), 0, 0, start.Add(time.Second))
		require.NoError(t, err)
		require.Empty(t, page, "it waits for the grace period")
		require.Equal(t, meta.BlockUsage{Blocks: 2, Bytes: 2 << 20, Dropped: 2, DroppedBytes: 2 << 20}, usage)
		page, _, err = c.DroppedBlocks(t.Context(), 0, 1, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Len(t, page, 1)
		require.Equal(t, old[1], page[0].ID)

		require.Equal(t, []bool{false, false}, garbage(t, c, old...), "the queue has them")
		store, err := c.BlockStore(0)
		require.NoError(t, err)
		require.NoError(t, store.Delete(t.Context(), old))
		many := append(make([]block.ID, 3*meta.MaxIDs), old...)
		count, err := c.Collected(t.Context(), 0, many)
		require.NoError(t, err)
		require.EqualValues(t, 2, count)
		count, err = c.Collected(t.Context(), 0, old)
		require.NoError(t, err)
		require.Zero(t, count)
		require.Empty(t, dropped(t, c, 0))
		require.Equal(t, bytes.Repeat([]byte{2}, 2<<20), read(t, c, f, 0, 2<<20))

		for _, err := range []error{
			second(c.Garbage(t.Context(), 99, nil)), second(c.Garbage(t.Context(), 1, old)),
			second(c.BlockStore(99)), second(c.Collected(t.Context(), 99, nil)),
		} {
			require.Equal(t, posix.EINVAL, err)
		}
		_, _, err = c.DroppedBlocks(t.Context(), 99, 0, start)
		require.Equal(t, posix.EINVAL, err)
	})
}

func second[T any](_ T, err error) error { return err }

// A failed write leaves garbage as soon as its client has reported that it abandoned the write.
func TestFailedWritesLeaveGarbage(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		_, err := c.Write(t.Context(), root, client.Write{Ino: f + 7, Data: make([]byte, 5000)})
		require.Equal(t, posix.ESTALE, err)
		left := ids(t, stores[0])
		require.Len(t, left, 1)
		require.Equal(t, []bool{false}, garbage(t, c, left...), "not said yet")
		time.Sleep(2 * client.DefaultRenew) // fake time
		require.Equal(t, []bool{true}, garbage(t, c, left...))
		write(t, c, f, 0, make([]byte, 5000))
		for _, id := range ids(t, stores[0]) {
			require.Equal(t, []bool{id == left[0]}, garbage(t, c, id))
		}
	})
}

// A block is not garbage while its write is under way, however long the write takes.
func TestAWriteUnderWayLeavesNoGarbage(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		slow := &slowStore{Store: n.Blocks, wait: 25 * time.Second}
		cfg := n.Config(west)
		cfg.Blocks = func(uint16) block.Store { return slow }
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		f, g := create(t, c, posix.Root, "f").Ino, create(t, c, posix.Root, "g").Ino
		written := make(chan error, 1)
		go func() {
			_, err := c.Write(t.Context(), root, client.Write{Ino: f, Data: make([]byte, 5000)})
			written <- err
		}()
		time.Sleep(time.Second) // fake time
		under := ids(t, n.Blocks)
		require.Len(t, under, 1)
		slow.wait = 0
		write(t, c, g, 0, make([]byte, 5000))
		time.Sleep(2 * client.DefaultRenew) // fake time
		require.Equal(t, []bool{false}, garbage(t, c, under...))
		require.NoError(t, <-written)
		time.Sleep(2 * client.DefaultRenew) // fake time
		for _, id := range ids(t, n.Blocks) {
			require.Equal(t, []bool{false}, garbage(t, c, id))
		}
	})
}

// slowStore puts a block at once, and returns later.
type slowStore struct {
	block.Store
	wait time.Duration
}

// Put implements block.Store.
func (s *slowStore) Put(ctx context.Context, b block.Block) error {
	wait := s.wait
	err := s.Store.Put(ctx, b)
	time.Sleep(wait) // fake time
	return err
}

// Blocks of a session that was lost are put again for the next one.
func TestBlocksOfALostSession(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Renew = 100 * lease // its session expires
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		f := create(t, c, posix.Root, "f").Ino
		time.Sleep(3 * lease) // fake time
		n.Tick()
		data := bytes.Repeat([]byte{7}, 3<<20)
		write(t, c, f, 0, data)
		require.Equal(t, data, read(t, c, f, 0, 4<<20))
		all := ids(t, n.Blocks)
		require.Len(t, all, 6)
		left := 0
		for _, is := range garbage(t, c, all...) {
			if is {
				left++
			}
		}
		require.Equal(t, 3, left, "those that were put under the lost session")
	})
}

// The home of a block answers for it, wherever its file is. A partition that drops the block informs the
// home.
func TestBlocksOfAFileThatMoved(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, make([]byte, 5000))
		id := ids(t, stores[0])[0]
		require.NoError(t, c.CopyBlocks(t.Context(), f, 2))
		_, err := c.Move(t.Context(), f, 2)
		require.NoError(t, err)
		time.Sleep(2 * client.DefaultRenew) // fake time
		require.Equal(t, []bool{false}, garbage(t, c, ids(t, stores[2])...))
		write(t, c, f, 0, make([]byte, 5000))
		require.Equal(t, []block.ID{id}, dropped(t, c, 2))
		time.Sleep(5 * time.Second) // fake time: the post
		require.Equal(t, []block.ID{id}, dropped(t, c, 0))
		for _, p := range []uint16{0, 2} {
			count, err := c.Collected(t.Context(), p, []block.ID{id})
			require.NoError(t, err)
			require.EqualValues(t, 1, count)
		}
		require.Equal(t, []bool{true}, garbage(t, c, id), "what is left of it")
	})
}

// A reader with a replica that lags for longer than the grace period receives extents with deleted blocks. It
// then asks a quorum.
func TestAReaderThatIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer, reader := n.Client(t, west), n.Client(t, east)
		f := create(t, writer, posix.Root, "f").Ino
		write(t, writer, f, 0, bytes.Repeat([]byte{1}, 5000))
		old := ids(t, n.Blocks)
		reader.Observe(writer.Proofs())
		require.Equal(t, bytes.Repeat([]byte{1}, 5000), read(t, reader, f, 0, 5000))
		n.Fail(clienttest.Lagging, n.Processes(0, east)[0])
		write(t, writer, f, 0, bytes.Repeat([]byte{2}, 5000))
		require.Equal(t, bytes.Repeat([]byte{1}, 5000), read(t, reader, f, 0, 5000), "late, and as good as before")
		require.NoError(t, n.Blocks.Delete(t.Context(), old))
		require.Equal(t, bytes.Repeat([]byte{2}, 5000), read(t, reader, f, 0, 5000))
		n.Fail(clienttest.None, n.Processes(0, east)...)
	})
}
