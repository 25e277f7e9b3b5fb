package mover_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/globalfs/globalfs/test/logged"
)

const (
	west = topology.Region("us-west-2") // partition 1
	east = topology.Region("us-east-1") // partition 2
)

var (
	spec = topology.Spec{Regions: []topology.Region{west, east}, Datacenters: 1, Replicas: 1, Copies: 1}
	root = clienttest.Root
)

// world is a cluster with a client. Each partition has its own blocks.
type world struct {
	*testing.T
	*client.Client
	network *clienttest.Network
	blocks  []*blocktest.Memory
	log     logged.Text // of movers and clients
	logger  *slog.Logger
}

// inBubble runs a test in a bubble, where waiting takes no time.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	bubble.Test(t, func(t *testing.T) {
		w := &world{T: t, network: clienttest.New(t, spec, time.Minute)}
		for range w.network.Plan.Partitions {
			w.blocks = append(w.blocks, blocktest.NewMemory(1<<30))
		}
		w.logger = w.log.Logger()
		w.Client = w.newClient()
		test(t, w)
	})
}

// newClient makes a client for the length of the test.
func (w *world) newClient() *client.Client {
	cfg := w.network.Config(west)
	cfg.Blocks = func(partition uint16) block.Store { return w.blocks[partition] }
	cfg.Logger = w.logger
	c, err := client.New(cfg)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, c.Close()) })
	return c
}

// start runs a mover with its own client until the call of stop, which waits for its end.
func (w *world) start(cfg mover.Config) (stop func()) {
	cfg.Client = w.newClient()
	cfg.Logger = w.logger
	m, err := mover.New(cfg)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// until waits until so returns true, for at most two hours of the bubble's time.
func (w *world) until(what string, so func() bool) {
	w.Helper()
	for range 2 * 60 * 60 {
		if so() {
			return
		}
		time.Sleep(time.Second)
	}
	require.Fail(w, "never so", "%s; the mover says:\n%s", what, w.log.String())
}

func (w *world) tasks() []client.PartitionTask {
	w.Helper()
	tasks, err := w.Tasks(w.Context())
	require.NoError(w, err)
	return tasks
}

func (w *world) untilMoved() {
	w.Helper()
	w.until("no task is left", func() bool { return len(w.tasks()) == 0 })
}

func (w *world) mkdir(dir posix.Ino, name string) posix.Ino {
	w.Helper()
	a, err := w.Mkdir(w.Context(), root, client.Name{Dir: dir, Name: name}, 0o755)
	require.NoError(w, err)
	return a.Ino
}

// file makes a file with this content.
func (w *world) file(dir posix.Ino, name string, content []byte) posix.Ino {
	w.Helper()
	a, err := w.Create(w.Context(), root, client.Name{Dir: dir, Name: name}, 0o644, meta.Exclusive)
	require.NoError(w, err)
	w.Release(a.Ino)
	w.write(a.Ino, 0, content)
	return a.Ino
}

func (w *world) write(ino posix.Ino, offset uint64, content []byte) {
	w.Helper()
	_, err := w.Client.Write(w.Context(), root, client.Write{Ino: ino, Offset: offset, Data: content})
	require.NoError(w, err)
}

func (w *world) content(ino posix.Ino) []byte {
	w.Helper()
	a, err := w.GetAttr(w.Context(), ino)
	require.NoError(w, err)
	b := make([]byte, a.Size)
	_, err = w.Read(w.Context(), ino, b, 0)
	require.NoError(w, err)
	return b
}

// place requests the move of a directory to a region.
func (w *world) place(dir posix.Ino, region topology.Region) {
	w.Helper()
	require.NoError(w, w.Place(w.Context(), root, dir, client.Placement{Region: region, Move: true}))
}

// requireAt requires all inodes to be in a partition.
func (w *world) requireAt(partition uint16, inos ...posix.Ino) {
	w.Helper()
	for _, ino := range inos {
		_, at, err := w.Where(w.Context(), ino)
		require.NoError(w, err)
		require.Equal(w, partition, at, "inode %d", ino)
	}
}

// requireSound checks the whole cluster, with its blocks.
func (w *world) requireSound() {
	w.Helper()
	w.network.Check(w)
	r, err := fsck.Online(w.Context(), w, fsck.Options{Partitions: len(w.blocks), Blocks: fsck.AllBlocks})
	require.NoError(w, err)
	require.Empty(w, r.Problems)
	require.Empty(w, r.Notes)
}

// large returns a content of several blocks.
func large(seed byte) []byte { return bytes.Repeat([]byte{seed, 1, 2, 3, 4, 5, 6}, 400_000) }

func TestMovesASubtree(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		sub := w.mkdir(top, "sub")
		deep := w.mkdir(sub, "deep")
		small, big := w.file(top, "small", []byte("hello")), w.file(deep, "big", large(1))
		sparse := w.file(deep, "sparse", []byte("x"))
		w.write(sparse, 5<<30, large(2))
		link, err := w.Symlink(w.Context(), root, client.Name{Dir: sub, Name: "symlink"}, "deep/big")
		require.NoError(t, err)
		for _, to := range []client.Name{{Dir: top, Name: "again"}, {Dir: posix.Root, Name: "outside"}} {
			_, err := w.Link(w.Context(), root, big, to)
			require.NoError(t, err)
		}
		require.NoError(t, w.SetXattr(w.Context(), root, sub, "user.x", []byte("v"), 0))
		other := w.file(posix.Root, "other", large(3))

		w.place(top, west)
		defer w.start(mover.Config{})()
		w.untilMoved()

		w.requireAt(1, top, sub, deep, small, big, sparse, link.Ino)
		w.requireAt(0, other, posix.Root)
		for id, err := range w.blocks[0].Range(w.Context(), block.ID{}, block.LastID) {
			require.NoError(t, err)
			require.NoError(t, w.blocks[0].Delete(w.Context(), []block.ID{id}))
		}
		require.Equal(t, []byte("hello"), w.content(small))
		require.True(t, bytes.Equal(large(1), w.content(big)))
		tail := make([]byte, len(large(2)))
		_, err = w.Read(w.Context(), sparse, tail, 5<<30)
		require.NoError(t, err)
		require.True(t, bytes.Equal(large(2), tail))
		outside, err := w.Lookup(w.Context(), posix.Root, "outside")
		require.NoError(t, err)
		require.Equal(t, big, outside.Ino)
		require.EqualValues(t, 3, outside.Nlink)
		value, err := w.GetXattr(w.Context(), sub, "user.x")
		require.NoError(t, err)
		require.Equal(t, "v", string(value))
		require.Contains(t, w.log.String(), "moved=7")
	})
}

// A directory with more entries than one page, deep and with many levels.
func TestMovesManyAndDeep(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var all []posix.Ino
		dir := w.mkdir(posix.Root, "top")
		top := dir
		for i := range 300 {
			all = append(all, w.mkdir(top, fmt.Sprintf("d%d", i)))
		}
		for range 40 {
			all = append(all, dir, w.file(dir, "f", []byte("f")))
			dir = w.mkdir(dir, "down")
		}
		w.place(top, east)
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(2, all...)
		w.requireAt(2, dir)
		w.requireSound()
	})
}
