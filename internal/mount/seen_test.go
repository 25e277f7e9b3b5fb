package mount

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// A second mount, whose kernel would cache everything for an hour, sees the changes of another mount by
// notices: of names, of attributes, and of content, also through a descriptor that is open, and again and
// again.
func TestKernelHearsOfAttributes(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), believing(t, n)
	require.NoError(t, os.Mkdir(a.path("d"), 0o755))
	a.write(t, "d/f", "0")
	hears(t, a, b)
	out, err := os.OpenFile(a.path("d/f"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer out.Close()
	in, err := os.Open(b.path("d/f"))
	require.NoError(t, err)
	defer in.Close()
	content, size := make([]byte, 1000), 1
	took := map[string][]time.Duration{}
	sees := func(what string, change func(), is func() bool) {
		t.Helper()
		require.False(t, is())
		change()
		began := time.Now()
		require.True(t, eventually(20*time.Second, is), what)
		took[what] = append(took[what], time.Since(began))
	}
	for i := range 20 {
		size++
		sees("stat after a write", func() {
			_, err := out.WriteString("x")
			require.NoError(t, err)
			require.NoError(t, out.Sync())
		}, func() bool { return b.stat(t, "d/f").Size == int64(size) })
		size++
		sees("read through an open descriptor", func() {
			_, err := out.WriteString("y")
			require.NoError(t, err)
			require.NoError(t, out.Sync())
		}, func() bool {
			read, err := in.ReadAt(content, 0)
			require.ErrorIs(t, err, io.EOF)
			return read == size
		})
		mode := uint32(0o600 + i%2)
		sees("chmod", func() { require.NoError(t, os.Chmod(a.path("d/f"), os.FileMode(mode))) }, func() bool {
			var s unix.Stat_t
			require.NoError(t, unix.Fstat(int(in.Fd()), &s))
			return s.Mode&0o777 == mode
		})
		name := fmt.Sprint("d/", i)
		sees("create", func() { a.write(t, name, "") }, func() bool { return !isGone(b.path(name)) })
		sees("rename", func() { require.NoError(t, os.Rename(a.path(name), a.path("d/new"))) }, func() bool { return isGone(b.path(name)) })
		sees("size of the directory", func() { a.write(t, "d/extra", "") }, func() bool { return b.stat(t, "d").Size == 3 })
		sees("unlink", func() { require.NoError(t, os.Remove(a.path("d/extra"))) }, func() bool { return b.stat(t, "d").Size == 2 })
		require.NoError(t, os.Remove(a.path("d/new")))
	}
	for what, all := range took {
		slices.Sort(all)
		t.Logf("%s: median %v, worst %v", what, all[len(all)/2], all[len(all)-1])
	}
}

// The kernel uses its attributes without a request for longer than it would without notices. It forgets
// them when the stream of changes is cut.
func TestKernelForgetsAttributesAfterACut(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	a.write(t, "f", "old")
	hears(t, a, b)
	in, err := os.Open(b.path("f"))
	require.NoError(t, err)
	defer in.Close()
	sizeOf := func() int64 {
		var s unix.Stat_t
		if err := unix.Fstat(int(in.Fd()), &s); err != nil {
			return -1
		}
		return s.Size
	}
	since, last := time.Now(), requests(t, b)
	require.True(t, eventually(time.Minute, func() bool { // they are cached for more than twice DefaultCacheTime
		require.EqualValues(t, 3, sizeOf())
		now := requests(t, b)
		if now != last+1 {
			since = time.Now()
		}
		last = now
		return time.Since(since) > 5*DefaultCacheTime/2
	}))
	replicas := n.Plan.Partitions[0].Replicas
	for _, r := range replicas {
		n.Fail(clienttest.Down, r.Process)
	}
	n.AwaitCalls(n.Calls(replicas[0].Process)+3, replicas[0].Process) // the stream is cut
	for _, r := range replicas {
		n.Fail(clienttest.None, r.Process)
	}
	out, err := os.OpenFile(a.path("f"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = out.WriteString("er")
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.True(t, eventually(20*time.Second, func() bool { return sizeOf() == 5 }))
}

// requests returns the number of requests that a mount has answered.
func requests(t *testing.T, m *mounted) uint64 {
	t.Helper()
	return decode[Counters](t, m.get(t, "", XattrCounters)).Requests
}

// Two mounts change and look at the same files all the time: in the end the kernels of both have the same
// attributes.
func TestKernelsAgree(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := believing(t, n), believing(t, n)
	require.NoError(t, os.Mkdir(a.path("d"), 0o755))
	hears(t, a, b)
	hears(t, b, a)
	var all sync.WaitGroup
	for i, m := range []*mounted{a, b, a, b} {
		all.Go(func() {
			for j := range 150 {
				path := m.path(fmt.Sprint("d/", (i+j)%5))
				if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err == nil {
					_, _ = f.WriteString("x")
					f.Close()
				}
				_, _ = os.Stat(path)
				_, _ = os.ReadDir(m.path("d"))
				if j%3 == 0 {
					_ = os.Chmod(path, os.FileMode(0o600+j%8))
				}
				if j%20 == 0 {
					_ = os.Remove(path)
				}
			}
		})
	}
	all.Wait()
	a.client.Observe(b.client.Proofs())
	b.client.Observe(a.client.Proofs())
	for i := range 5 {
		name := fmt.Sprint("d/", i)
		require.True(t, eventually(20*time.Second, func() bool {
			var one, two unix.Stat_t
			errOne, errTwo := unix.Lstat(a.path(name), &one), unix.Lstat(b.path(name), &two)
			if errOne != nil || errTwo != nil {
				return errors.Is(errOne, errTwo)
			}
			want, err := n.Client(t, "us-west-2").GetAttr(t.Context(), posix.Ino(one.Ino))
			return err == nil && one.Size == two.Size && one.Mode == two.Mode && one.Ctim == two.Ctim && uint64(one.Size) == want.Size
		}), name)
	}
}

// A program that gets a lock sees all that was written under the lock before, to other files, too.
func TestLocksOrderOtherFiles(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	mounts := []*mounted{mountOf(t, n), mountOf(t, n)}
	mounts[0].write(t, "lock", "")
	mounts[0].write(t, "data", "")
	mounts[1].client.Observe(mounts[0].client.Proofs())
	hears(t, mounts[0], mounts[1])
	hears(t, mounts[1], mounts[0])
	var all sync.WaitGroup
	for _, m := range mounts {
		all.Go(func() {
			lock, err := os.OpenFile(m.path("lock"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer lock.Close()
			data, err := os.OpenFile(m.path("data"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer data.Close()
			content := make([]byte, 1000)
			for i := range 60 {
				require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
				read, err := data.ReadAt(content, 0)
				require.ErrorIs(t, err, io.EOF)
				var s unix.Stat_t
				require.NoError(t, unix.Fstat(int(data.Fd()), &s))
				if s.Size != int64(read) {
					t.Errorf("round %d: a size of %d, %d bytes read", i, s.Size, read)
				}
				_, err = data.WriteAt([]byte("x"), int64(read))
				require.NoError(t, err)
				require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_UN))
			}
		})
	}
	all.Wait()
	require.Len(t, mounts[0].read(t, "data"), 120, "each write was seen by the next one")
}
