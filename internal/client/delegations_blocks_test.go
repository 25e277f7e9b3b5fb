package client_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/client/journal"
	"github.com/globalfs/globalfs/internal/posix"
)

// blockText is content that is one block.
var blockText = bytes.Repeat([]byte("block"), 5000)

// fill makes a file with content of one block.
func fill(t *testing.T, c *client.Client, dir posix.Ino, name string) posix.Attr {
	t.Helper()
	a := create(t, c, dir, name)
	write(t, c, a.Ino, 0, blockText)
	return a
}

// A write in a held directory returns before its block is stored. The own client reads it at once. Others see
// neither it nor a later change before the block is stored.
func TestBlocksAreStoredBehindTheWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		create(t, c, dir.Ino, "before")
		n.Blocks.Hang(true)
		began := time.Now()
		a := fill(t, c, dir.Ino, "f")
		create(t, c, dir.Ino, "after")
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.Equal(t, len(blockText), c.Holding().BlockBytes)
		require.Equal(t, blockText, read(t, c, a.Ino, 0, len(blockText)))
		time.Sleep(2 * time.Second) // fake time
		require.ElementsMatch(t, []string{"before", "f"}, listNames(t, other, dir.Ino), "what is before the write is ordered")

		synced := make(chan error, 1)
		go func() { synced <- c.Persist(t.Context(), dir.Ino) }()
		time.Sleep(time.Second) // fake time
		require.Empty(t, synced, "fsync waits for the block")
		n.Blocks.Hang(false)
		require.NoError(t, <-synced)
		require.Zero(t, c.Holding().BlockBytes)
		require.NoError(t, other.Wait(t.Context(), c.Token()))
		require.ElementsMatch(t, []string{"before", "f", "after"}, listNames(t, other, dir.Ino))
		require.Equal(t, blockText, read(t, other, a.Ino, 0, len(blockText)))
		n.Check(t)
	})
}

// The blocks that wait are bounded: the next write stores its block itself, and waits for that.
func TestWaitingBlocksAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegating(t, n)
		dir := makeDir(t, c, posix.Root, "d")
		a := create(t, c, dir.Ino, "f")
		n.Blocks.Hang(true)
		data := bytes.Repeat([]byte("x"), block.MaxSize)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // fake time
		defer cancel()
		written := 0
		for ; written < 100; written++ {
			if _, err := c.Write(ctx, root, client.Write{Ino: a.Ino, Offset: uint64(written) * block.MaxSize, Data: data}); err != nil {
				break
			}
		}
		require.Equal(t, 8, written, "MiB")
		require.Equal(t, 8<<20, c.Holding().BlockBytes)
		n.Blocks.Hang(false)
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		write(t, c, a.Ino, 0, data)
		require.NoError(t, c.PersistAll(t.Context()))
		require.Zero(t, c.Holding().BlockBytes)
		n.Check(t)
	})
}

// If a block cannot be stored, only its write is lost: the later operations of the log are ordered. The file
// and the client report the loss, and the next writes return errors themselves.
func TestABlockThatCannotBeStored(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir, untouched := makeDir(t, c, posix.Root, "d"), makeDir(t, c, posix.Root, "e")
		good := fill(t, c, dir.Ino, "good")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		n.Blocks.Fail(block.ErrNoSpace)
		bad := fill(t, c, dir.Ino, "bad")
		create(t, c, dir.Ino, "after")
		time.Sleep(time.Second) // fake time
		require.EqualValues(t, 1, c.Losses())
		for ino, want := range map[posix.Ino]uint64{bad.Ino: 1, good.Ino: 0, dir.Ino: 0, untouched.Ino: 0} {
			require.Equal(t, want, c.LossesOf(ino), ino)
		}
		h := c.Holding()
		require.EqualValues(t, 1, h.Lost)
		require.Contains(t, h.Losses[0].Reason, block.ErrNoSpace.Error())
		require.Equal(t, 1, h.Directories, "the directory of the file is returned: its copy has the content")
		require.Zero(t, h.BlockBytes)

		again := create(t, c, untouched.Ino, "again")
		_, err := c.Write(t.Context(), root, client.Write{Ino: again.Ino, Data: blockText})
		require.ErrorIs(t, err, posix.ENOSPC)
		n.Blocks.Fail(nil)
		write(t, c, again.Ino, 0, blockText)
		require.NoError(t, c.PersistAll(t.Context()))
		require.EqualValues(t, 1, c.Losses())
		require.NoError(t, other.Wait(t.Context(), c.Token()))
		require.ElementsMatch(t, []string{"good", "bad", "after"}, listNames(t, other, dir.Ino))
		for _, each := range []*client.Client{c, other} {
			require.Empty(t, read(t, each, bad.Ino, 0, len(blockText)))
			require.Equal(t, blockText, read(t, each, good.Ino, 0, len(blockText)))
			require.Equal(t, blockText, read(t, each, again.Ino, 0, len(blockText)))
		}
		n.Check(t)
	})
}

// A client dies with blocks that are not stored: the next one stores them before it sends the operations.
func TestWaitingBlocksOfADeadClient(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := live(t, n, make([]byte, journal.Size), nil), n.Client(t, east)
		dir := makeDir(t, c.Client, posix.Root, "d")
		n.Blocks.Hang(true)
		var files []posix.Ino
		for _, name := range []string{"a", "b", "c"} {
			files = append(files, fill(t, c.Client, dir.Ino, name).Ino)
			create(t, c.Client, dir.Ino, "after-"+name)
		}
		time.Sleep(time.Second) // fake time
		next := c.die(t, n)
		require.Empty(t, n.Blocks.IDs(), "the dead one has stored nothing")
		require.Equal(t, 3*len(blockText), next.Holding().BlockBytes)
		time.Sleep(time.Second) // fake time
		require.Subset(t, []string{"a"}, listNames(t, other, dir.Ino), "the second is behind a block that is not stored")
		n.Blocks.Hang(false)
		require.NoError(t, next.PersistAll(t.Context()))
		require.Zero(t, next.Holding().Lost)
		require.NoError(t, other.Wait(t.Context(), next.Token()))
		require.Len(t, listNames(t, other, dir.Ino), 6)
		for _, ino := range files {
			require.Equal(t, blockText, read(t, other, ino, 0, len(blockText)))
			require.Equal(t, blockText, read(t, next.Client, ino, 0, len(blockText)))
		}
		n.Check(t)
	})
}

// The log is lost with its blocks: they do not stay in memory.
func TestBlocksOfALostLog(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegating(t, n)
		dir := makeDir(t, c, posix.Root, "d")
		n.Blocks.Hang(true)
		fill(t, c, dir.Ino, "f")
		require.Positive(t, c.Holding().BlockBytes)
		c.Suspend()
		require.EqualValues(t, 1, c.Losses())
		require.Zero(t, c.Holding().BlockBytes)
		n.Blocks.Hang(false)
	})
}

// counted counts the puts of a store.
type counted struct {
	*blocktest.Memory
	single, several atomic.Int64
	refuses         atomic.Bool // several blocks at once
}

// Put implements block.Store.
func (c *counted) Put(ctx context.Context, b block.Block) error {
	c.single.Add(1)
	return c.Memory.Put(ctx, b)
}

// PutAll implements block.Batcher.
func (c *counted) PutAll(ctx context.Context, blocks []block.Block) error {
	if c.refuses.Load() {
		_ = c.Memory.Put(ctx, blocks[0])
		return block.ErrUnavailable
	}
	c.several.Add(1)
	return c.Memory.PutAll(ctx, blocks)
}

// The blocks of many small files take few puts, at a slow storage as well. A caller that waits makes the
// blocks due at once.
func TestBlocksOfManyFilesNeedFewPuts(t *testing.T) {
	for _, slow := range []time.Duration{0, 8 * time.Millisecond} {
		inBubble(t, func(t *testing.T, n *clienttest.Network) {
			store := &counted{Memory: n.Blocks}
			config := n.Config(west)
			config.Delegate, config.CacheNames, config.Blocks = true, true, func(uint16) block.Store { return store }
			c, err := client.New(config)
			require.NoError(t, err)
			defer c.Close()
			dir := makeDir(t, c, posix.Root, "d")
			n.Blocks.Slow(slow)
			const files = 200
			for i := range files {
				a := create(t, c, dir.Ino, fmt.Sprint(i))
				write(t, c, a.Ino, 0, blockText[:5000+i])
				time.Sleep(time.Millisecond) // fake time
			}
			require.NoError(t, c.PersistAll(t.Context()))
			require.Less(t, store.single.Load()+store.several.Load(), int64(files/3))
			require.Len(t, n.Blocks.IDs(), files)

			n.Blocks.Slow(0)
			began := time.Now()
			fill(t, c, dir.Ino, "one")
			require.NoError(t, c.Persist(t.Context(), dir.Ino))
			alone := time.Since(began)
			require.Less(t, alone, 50*time.Millisecond)

			store.refuses.Store(true)
			store.single.Store(0)
			for i := range 20 {
				a := create(t, c, dir.Ino, fmt.Sprint("refused", i))
				write(t, c, a.Ino, 0, blockText[:5000+i])
			}
			require.NoError(t, c.PersistAll(t.Context()))
			require.EqualValues(t, 20, store.single.Load(), "each by itself")
			require.Zero(t, c.Losses())
			n.Check(t)
		})
	}
}

// If several blocks cannot be stored, only those are lost that cannot be stored by themselves.
func TestOneOfSeveralBlocksCannotBeStored(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegating(t, n)
		dir := makeDir(t, c, posix.Root, "d")
		n.Blocks.Resize(3*len(blockText) - 1)
		var files []posix.Ino
		for _, name := range []string{"a", "b", "c"} {
			files = append(files, fill(t, c, dir.Ino, name).Ino)
		}
		time.Sleep(time.Second) // fake time
		require.EqualValues(t, 1, c.Holding().Lost)
		kept := 0
		for _, ino := range files {
			if bytes.Equal(blockText, read(t, c, ino, 0, len(blockText))) {
				kept++
			}
		}
		require.Equal(t, 2, kept)
		n.Check(t)
	})
}

// While the storage is silent, several blocks are lost after the timeout of the client, as one block is.
func TestSeveralBlocksAtASilentStorage(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Delegate, cfg.CacheNames, cfg.Timeout = true, true, 10*time.Second
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		dir := makeDir(t, c, posix.Root, "d")
		n.Blocks.Hang(true)
		for _, name := range []string{"a", "b", "c"} {
			fill(t, c, dir.Ino, name)
		}
		time.Sleep(cfg.Timeout - time.Second) // fake time
		require.Zero(t, c.Holding().Lost)
		time.Sleep(2 * time.Second) // fake time
		require.EqualValues(t, 3, c.Holding().Lost)
		n.Blocks.Hang(false)
	})
}
