package client_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
)

const (
	west = topology.Region("us-west-2")
	east = topology.Region("us-east-1")
)

var (
	spec = topology.Spec{Regions: []topology.Region{west, east, "eu-west-1"}, Datacenters: 1, Replicas: 3, Copies: 1}
	root = clienttest.Root
)

const lease = time.Minute

func at(dir posix.Ino, name string) client.Name { return client.Name{Dir: dir, Name: name} }

// inBubble runs a test in a bubble, in which waiting takes no time, with the cluster of spec.
func inBubble(t *testing.T, test func(t *testing.T, n *clienttest.Network)) {
	synctest.Test(t, func(t *testing.T) { test(t, clienttest.New(t, spec, lease)) })
}

func create(t *testing.T, c *client.Client, dir posix.Ino, name string) posix.Attr {
	t.Helper()
	a, err := c.Create(t.Context(), root, at(dir, name), 0o644, meta.Exclusive)
	require.NoError(t, err)
	return a
}

func write(t *testing.T, c *client.Client, ino posix.Ino, offset uint64, data []byte) client.Written {
	t.Helper()
	w, err := c.Write(t.Context(), root, client.Write{Ino: ino, Offset: offset, Data: data})
	require.NoError(t, err)
	require.Equal(t, len(data), w.Bytes)
	return w
}

func read(t *testing.T, c *client.Client, ino posix.Ino, offset uint64, length int) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xaa}, length)
	n, err := c.Read(t.Context(), ino, b, offset)
	require.NoError(t, err)
	return b[:n]
}

func TestNames(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		cred := posix.Cred{UID: 7, GID: 8}
		d, err := c.Mkdir(ctx, cred, at(posix.Root, "d"), 0o750)
		require.NoError(t, err)
		require.Equal(t, posix.TypeDir|0o750, d.Mode)
		f, err := c.Create(ctx, cred, at(d.Ino, "f"), 0o640, 0)
		require.NoError(t, err)
		require.Equal(t, [2]uint32{7, 8}, [2]uint32{f.UID, f.GID})
		_, err = c.Create(ctx, cred, at(d.Ino, "f"), 0o640, meta.Exclusive)
		require.Equal(t, posix.EEXIST, err)
		l, err := c.Link(ctx, cred, f.Ino, at(posix.Root, "l"))
		require.NoError(t, err)
		require.EqualValues(t, 2, l.Nlink)
		_, err = c.Symlink(ctx, cred, at(d.Ino, "s"), "../l")
		require.NoError(t, err)
		_, err = c.Mknod(ctx, cred, at(d.Ino, "p"), posix.TypeFIFO|0o600, 0)
		require.NoError(t, err)
		s, err := c.Lookup(ctx, d.Ino, "s")
		require.NoError(t, err)
		target, err := c.Readlink(ctx, s.Ino)
		require.NoError(t, err)
		require.Equal(t, "../l", string(target))
		require.Equal(t, posix.ENOTEMPTY, c.Rmdir(ctx, cred, at(posix.Root, "d")))
		require.NoError(t, c.Rename(ctx, cred, at(d.Ino, "s"), at(posix.Root, "t"), 0))
		require.Equal(t, posix.EEXIST, c.Rename(ctx, cred, at(d.Ino, "p"), at(d.Ino, "f"), meta.RenameNoReplace))
		require.NoError(t, c.Unlink(ctx, cred, at(d.Ino, "f")))
		require.NoError(t, c.Unlink(ctx, cred, at(d.Ino, "p")))
		require.NoError(t, c.Rmdir(ctx, cred, at(posix.Root, "d")))
		_, err = c.Lookup(ctx, posix.Root, "d")
		require.Equal(t, posix.ENOENT, err)
	})
}

func TestPartitionsMeetInTheTree(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		local, err := c.Lookup(ctx, posix.Root, string(east))
		require.NoError(t, err)
		require.Equal(t, posix.TypeDir|0o755, local.Mode, "its own partition is asked for what the root does not know")
		entries, counter, err := c.ReadDir(ctx, posix.Root, 0, 10)
		require.NoError(t, err)
		require.Equal(t, c.Seen(0), counter)
		require.Len(t, entries, 3)
		require.Equal(t, posix.Attr{Ino: local.Ino, Mode: posix.TypeDir}, entries[1].Attr)
		global, near := create(t, c, posix.Root, "g"), create(t, c, local.Ino, "n")
		require.EqualValues(t, 2, near.Ino.Partition())
		_, err = c.Link(ctx, root, global.Ino, at(local.Ino, "x"))
		require.Equal(t, posix.EXDEV, err)
		require.Equal(t, posix.EXDEV, c.Rename(ctx, root, at(posix.Root, "g"), at(local.Ino, "x"), 0))
		_, err = c.GetAttr(ctx, posix.MakeIno(9, 1))
		require.Equal(t, posix.ESTALE, err)
	})
}

func TestXattrsAndStatFS(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		f := create(t, c, posix.Root, "f").Ino
		require.NoError(t, c.SetXattr(ctx, root, f, "user.a", []byte("1"), meta.XattrCreate))
		require.Equal(t, posix.EEXIST, c.SetXattr(ctx, root, f, "user.a", nil, meta.XattrCreate))
		require.Equal(t, posix.E2BIG, c.SetXattr(ctx, root, f, "user.b", make([]byte, posix.MaxXattr+1), 0))
		require.NoError(t, c.SetXattr(ctx, root, f, "user.b", make([]byte, posix.MaxXattr), 0))
		value, err := c.GetXattr(ctx, f, "user.a")
		require.NoError(t, err)
		require.Equal(t, "1", string(value))
		names, err := c.ListXattr(ctx, f)
		require.NoError(t, err)
		require.Equal(t, "user.a\x00user.b\x00", string(names))
		require.NoError(t, c.RemoveXattr(ctx, root, f, "user.a"))
		require.Equal(t, posix.ENODATA, c.RemoveXattr(ctx, root, f, "user.a"))

		write(t, c, f, 0, make([]byte, 100_000))
		u, err := c.StatFS(ctx, f)
		require.NoError(t, err)
		require.Equal(t, client.Usage{Inodes: 2, Used: 100_000, Free: clienttest.StorageBytes - 100_000}, u)
	})
}

// What is written must be read, whatever the sizes, the holes and what is overwritten.
func TestContentAgainstAModel(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		random := rand.New(rand.NewPCG(1, 2))
		var model []byte
		grow := func(to int) { model = append(model, make([]byte, max(0, to-len(model)))...) }
		for range 300 {
			offset, data := random.IntN(5<<20), make([]byte, 1+random.IntN(1<<random.IntN(22)))
			if random.IntN(3) == 0 {
				offset = random.IntN(8 << 10)
			}
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			switch random.IntN(4) {
			case 0, 1:
				write(t, c, f, uint64(offset), data)
				grow(offset + len(data))
				copy(model[offset:], data)
			case 2:
				require.NoError(t, c.Fallocate(t.Context(), root, f, uint64(offset), uint64(len(data)), meta.FallocateZero))
				grow(offset + len(data))
				clear(model[offset:][:len(data)])
			case 3:
				_, err := c.SetAttr(t.Context(), root, f, meta.SetSize, posix.Attr{Size: uint64(offset)})
				require.NoError(t, err)
				grow(offset)
				model = model[:offset]
			}
			from := random.IntN(len(model) + 1)
			length := random.IntN(6 << 20)
			want := model[from:min(len(model), from+length)]
			require.True(t, bytes.Equal(want, read(t, c, f, uint64(from), length)), "at %d, %d bytes", from, length)
		}
	})
}

func TestSmallFilesAreInline(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, make([]byte, 4096))
		_, free, _ := n.Blocks.Usage()
		require.EqualValues(t, clienttest.StorageBytes, free, "no block")
		write(t, c, f, 4000, make([]byte, 97))
		_, free, _ = n.Blocks.Usage()
		require.EqualValues(t, clienttest.StorageBytes-97, free, "a block")
	})
}

func TestAppendsOfTwoClientsDoNotOverlap(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		f := create(t, n.Client(t, west), posix.Root, "log").Ino
		var all sync.WaitGroup
		for i, region := range spec.Regions {
			c := n.Client(t, region)
			all.Go(func() {
				for range 20 {
					w, err := c.Write(context.Background(), root, client.Write{Ino: f, Data: bytes.Repeat([]byte{byte(i + 1)}, 5000), Append: true})
					require.NoError(t, err)
					require.Zero(t, w.Offset%5000)
				}
			})
		}
		all.Wait()
		c := n.Client(t, east)
		content := read(t, c, f, 0, 1<<20)
		require.Len(t, content, 60*5000)
		for i := 0; i < len(content); i += 5000 {
			require.Equal(t, bytes.Repeat(content[i:i+1], 5000), content[i:i+5000])
		}
	})
}

func TestWriteTakesSetIDAway(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f, err := c.Create(t.Context(), root, at(posix.Root, "f"), 0o6755, 0)
		require.NoError(t, err)
		require.Equal(t, posix.TypeRegular|0o6755, write(t, c, f.Ino, 0, []byte("x")).Attr.Mode)
		w, err := c.Write(t.Context(), root, client.Write{Ino: f.Ino, Data: []byte("x"), KillSetID: true})
		require.NoError(t, err)
		require.Equal(t, posix.TypeRegular|0o755, w.Attr.Mode)
	})
}

func TestSeek(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		f := create(t, c, posix.Root, "f").Ino
		const far = 1 << 40
		write(t, c, f, 4096, make([]byte, 8192))
		write(t, c, f, far, make([]byte, 3<<20))
		_, err := c.SetAttr(ctx, root, f, meta.SetSize, posix.Attr{Size: far + 4<<20})
		require.NoError(t, err)
		for _, s := range []struct {
			from, data uint64
			hole       uint64
		}{{0, 4096, 0}, {5000, 5000, 12288}, {12288, far, 12288}, {far + 5, far + 5, far + 3<<20}} {
			at, err := c.SeekData(ctx, f, s.from)
			require.NoError(t, err)
			require.Equal(t, s.data, at, "data from %d", s.from)
			at, err = c.SeekHole(ctx, f, s.from)
			require.NoError(t, err)
			require.Equal(t, s.hole, at, "hole from %d", s.from)
		}
		_, err = c.SeekData(ctx, f, far+3<<20)
		require.Equal(t, posix.ENXIO, err)
		_, err = c.SeekHole(ctx, f, far+4<<20)
		require.Equal(t, posix.ENXIO, err)
	})
}

// A block that was overwritten and deleted between the two steps of a read (T 3.4.2) is looked
// for again.
func TestReadOutlivesCollectedBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer := n.Client(t, west)
		f := create(t, writer, posix.Root, "f").Ino
		write(t, writer, f, 0, bytes.Repeat([]byte("old."), 2048))
		cfg := n.Config(west)
		deleted := false
		cfg.Blocks = func(uint16) block.Store {
			return storeWithHook{n.Blocks, func(id block.ID) {
				if !deleted {
					deleted = true
					write(t, writer, f, 0, bytes.Repeat([]byte("new."), 2048))
					require.NoError(t, n.Blocks.Delete(t.Context(), []block.ID{id}))
				}
			}}
		}
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, bytes.Repeat([]byte("new."), 2048), read(t, c, f, 0, 8192))
	})
}

type storeWithHook struct {
	block.Store
	before func(block.ID)
}

func (s storeWithHook) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	s.before(id)
	return s.Store.Get(ctx, id, into)
}

func TestStorageErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, make([]byte, 8192))
		for failure, want := range map[error]posix.Code{
			block.ErrNoSpace: posix.ENOSPC, block.ErrUnavailable: posix.EIO, fmt.Errorf("disk: %w", block.ErrCorrupt): posix.EIO,
		} {
			n.Blocks.Fail(failure)
			before := n.Ordered(0)
			_, err := c.Write(t.Context(), root, client.Write{Ino: f, Data: make([]byte, 8192)})
			require.Equal(t, want, err)
			require.Equal(t, before, n.Ordered(0), "nothing is multicast before the blocks are there")
			_, err = c.Read(t.Context(), f, make([]byte, 10), 0)
			require.Equal(t, want, err)
		}
	})
}

// A reader that was told of a write sees it, also at a replica that lags (T 3.4.1).
func TestObserveIsCausal(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer, reader := n.Client(t, west), n.Client(t, east)
		f := create(t, writer, posix.Root, "f").Ino
		lagging := n.Processes(0, east)[0]
		n.Fail(clienttest.Lagging, lagging)
		write(t, writer, f, 0, []byte("message"))
		require.Empty(t, read(t, reader, f, 0, 10), "nobody told it")
		reader.Observe(writer.Vector())
		require.Equal(t, "message", string(read(t, reader, f, 0, 10)), "the lagging replica does not answer, the next one does")
		require.GreaterOrEqual(t, reader.Seen(0), writer.Seen(0))
	})
}

func TestNearestReplicaIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, east)
		order := n.Processes(0, east)
		stat := func() {
			t.Helper()
			_, err := c.GetAttr(t.Context(), posix.Root)
			require.NoError(t, err)
		}
		stat()
		require.Equal(t, []int{1, 0}, []int{n.Calls(order[0]), n.Calls(order[1])})
		n.Fail(clienttest.Down, order[0])
		stat()
		stat()
		require.Equal(t, []int{2, 2}, []int{n.Calls(order[0]), n.Calls(order[1])}, "the one that failed is left alone")
		n.Fail(clienttest.None, order[0])
		time.Sleep(11 * time.Second) // fake time
		stat()
		require.Equal(t, []int{3, 2}, []int{n.Calls(order[0]), n.Calls(order[1])}, "it is asked again after a while")
		n.Fail(clienttest.Busy, order[0])
		stat()
		require.Equal(t, 3, n.Calls(order[1]))
	})
}

// An update whose answer is lost is sent to another replica and executed once.
func TestRetryIsExecutedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		n.Fail(clienttest.Mute, n.Processes(0, west)[0])
		for i := range 5 {
			w, err := c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("x"), Append: true})
			require.NoError(t, err)
			require.EqualValues(t, i, w.Offset)
		}
		_, err := c.Mkdir(t.Context(), root, at(posix.Root, "d"), 0o755)
		require.NoError(t, err, "EEXIST if it were executed twice")
	})
}

func TestTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		create(t, c, posix.Root, "f")
		all := n.Processes(0, west)
		for _, fault := range []clienttest.Fault{clienttest.Down, clienttest.Silent, clienttest.Busy} {
			n.Fail(fault, all...)
			start := time.Now()
			_, err := c.GetAttr(t.Context(), posix.Root)
			require.Equal(t, posix.ETIMEDOUT, err)
			require.Equal(t, client.DefaultTimeout, time.Since(start))
			require.Equal(t, posix.ETIMEDOUT, c.Unlink(t.Context(), root, at(posix.Root, "f")))
		}
		n.Fail(clienttest.None, all...)
		require.NoError(t, c.Unlink(t.Context(), root, at(posix.Root, "f")), "what timed out was never executed")
	})
}

// Other partitions go on while one is cut off.
func TestGenuine(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		local := n.Plan.Partitions[1].Root()
		create(t, c, local, "before")
		n.Fail(clienttest.Silent, n.Processes(0, west)...)
		start := time.Now()
		create(t, c, local, "meanwhile")
		require.Zero(t, time.Since(start))
		time.Sleep(3 * lease) // fake time
		n.Tick()
		f, err := c.Open(t.Context(), create(t, c, local, "later").Ino)
		require.NoError(t, err, "its session was renewed")
		require.NotZero(t, f.Nlink)
	})
}

// C6: queries end with their context, updates only before they are multicast.
func TestInterrupts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		all := n.Processes(0, west)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		before := n.Ordered(0)
		_, err := c.Write(ended, root, client.Write{Ino: f, Data: []byte("x")})
		require.Equal(t, posix.EINTR, err)
		require.Equal(t, before, n.Ordered(0))

		n.Fail(clienttest.Silent, all...)
		soon, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err = c.GetAttr(soon, f)
		require.Equal(t, posix.EINTR, err)
		require.Equal(t, time.Second, time.Since(start))

		soon, cancel = context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Second, cancel)
		time.AfterFunc(3*time.Second, func() { n.Fail(clienttest.None, all...) })
		_, err = c.Write(soon, root, client.Write{Ino: f, Data: []byte("x")})
		require.NoError(t, err, "its outcome is awaited")
	})
}

func TestUnlinkedButOpenIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, []byte("still here"))
		require.NoError(t, other.Unlink(t.Context(), root, at(posix.Root, "f")))
		_, err := other.Open(t.Context(), f)
		require.Equal(t, posix.ESTALE, err, "only who has it open may open it again")
		time.Sleep(5 * lease) // fake time, with renewals
		n.Tick()
		require.Equal(t, "still here", string(read(t, c, f, 0, 100)))
		a, err := c.Open(t.Context(), f)
		require.NoError(t, err)
		require.Zero(t, a.Nlink)
		c.Release(f)
		c.Release(f)
		time.Sleep(3 * client.DefaultRenew) // fake time
		_, err = c.GetAttr(t.Context(), f)
		require.Equal(t, posix.ESTALE, err, "reaped once nobody holds it")
	})
}

// An inode that was unlinked between lookup and open can be opened as long as it is there.
func TestOpenUnlinked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		require.NoError(t, c.OpenPartition(t.Context(), 0))
		f := create(t, other, posix.Root, "f").Ino
		require.NoError(t, other.Unlink(t.Context(), root, at(posix.Root, "f")))
		_, err := c.Open(t.Context(), f)
		require.Equal(t, posix.ESTALE, err)
		a, err := c.OpenUnlinked(t.Context(), f)
		require.NoError(t, err)
		require.Zero(t, a.Nlink)
		other.Release(f)
		time.Sleep(2 * lease) // fake time
		_, err = c.GetAttr(t.Context(), f)
		require.NoError(t, err, "it is held here")
		c.Release(f)
		time.Sleep(lease) // fake time
		_, err = c.OpenUnlinked(t.Context(), f)
		require.Equal(t, posix.ESTALE, err)
	})
}

// cutOff makes the replicas of partition 0 deaf until the client's lease is over.
func cutOff(n *clienttest.Network) {
	all := n.Processes(0, west)
	n.Fail(clienttest.Silent, all...)
	time.Sleep(3 * lease) // fake time
	n.Fail(clienttest.None, all...)
	n.Tick()
	n.Tick()
}

func TestExpiredSessionIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		cutOff(n)
		write(t, c, f, 0, []byte("first"))
		require.NoError(t, n.Client(t, east).Unlink(t.Context(), root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		require.Equal(t, "first", string(read(t, c, f, 0, 10)), "the new session holds it too")
	})
}

// An update that may have been executed before its session expired is not executed again.
func TestUnknownOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Timeout, cfg.Renew = 20*lease, 100*lease
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		f := create(t, c, posix.Root, "f").Ino
		all := n.Processes(0, west)
		n.Fail(clienttest.Mute, all...)
		time.AfterFunc(3*lease, func() {
			n.Tick()
			n.Fail(clienttest.None, all...)
		})
		_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("x"), Append: true})
		require.Equal(t, posix.EIO, err)
		require.Equal(t, "x", string(read(t, c, f, 0, 10)), "it was executed, once")
		_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("y"), Append: true})
		require.NoError(t, err, "the next session works")
	})
}

// More updates at a time than a session may have under way.
func TestWindow(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		require.NoError(t, c.OpenPartition(t.Context(), 0))
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		const count = replica.MaxOutstanding + 50
		before := n.Ordered(0)
		var running sync.WaitGroup
		for i := range count {
			running.Go(func() {
				_, err := c.Mknod(t.Context(), root, at(posix.Root, fmt.Sprint(i)), posix.TypeRegular|0o600, 0)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		n.Fail(clienttest.None, all...)
		running.Wait()
		require.Equal(t, count, n.Ordered(0)-before)
	})
}

// A create whose answer comes after a renewal looks whether its inode is still there.
func TestCreateAcrossARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		require.NoError(t, c.OpenPartition(t.Context(), 0))
		n.Fail(clienttest.Mute, n.Processes(0, west)...)
		done := make(chan posix.Attr, 1)
		go func() { done <- create(t, c, posix.Root, "f") }()
		time.Sleep(client.DefaultRenew + time.Second) // fake time: a renewal goes out
		n.Fail(clienttest.None, n.Processes(0, west)...)
		f := <-done
		require.NoError(t, n.Client(t, east).Unlink(t.Context(), root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		_, err := c.GetAttr(t.Context(), f.Ino)
		require.NoError(t, err, "it is held")
	})
}

// Reading goes on where nothing can be ordered.
func TestOpenWithoutASession(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		f := create(t, n.Client(t, west), posix.Root, "f").Ino
		c := n.Client(t, east)
		near := n.Processes(0, east)
		n.Fail(clienttest.Lagging, near[0])
		n.Fail(clienttest.Silent, near[1:]...)
		start := time.Now()
		_, err := c.Open(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 3*time.Second)
		n.Fail(clienttest.None, near...)
		time.Sleep(2 * client.DefaultRenew) // fake time
		require.NoError(t, n.Client(t, west).Unlink(t.Context(), root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		_, err = c.GetAttr(t.Context(), f)
		require.NoError(t, err, "a session was opened later, and holds it")
	})
}

func TestClosedClientIsQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, err := client.New(n.Config(west))
		require.NoError(t, err)
		create(t, c, posix.Root, "f")
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		before := n.Ordered(0)
		time.Sleep(time.Hour) // fake time
		require.Equal(t, before, n.Ordered(0))
	})
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	good := clienttest.New(t, spec, lease).Config(west)
	for want, spoil := range map[string]func(*client.Config){
		"Cluster": func(c *client.Config) { c.Cluster = nil },
		"Caller":  func(c *client.Config) { c.Caller = nil },
		"Blocks":  func(c *client.Config) { c.Blocks = nil },
		"timeout": func(c *client.Config) { c.Timeout = -1 },
		"cluster": func(c *client.Config) { c.Cluster = &topology.Cluster{} },
	} {
		cfg := good
		spoil(&cfg)
		_, err := client.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
