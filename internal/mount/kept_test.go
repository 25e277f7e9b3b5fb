package mount

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// Content that was written under an exclusive lock is ordered before the lock becomes a shared one.
func TestDowngradedLock(t *testing.T) {
	a, b := twoMounts(t)
	for _, flocks := range []bool{true, false} {
		set := func(f *os.File, kind int16, how int) error {
			if flocks {
				return flock(f, how)
			}
			return unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: kind})
		}
		fa, fb := a.open(t, "f"), b.open(t, "f")
		require.NoError(t, set(fa, unix.F_WRLCK, unix.LOCK_EX))
		content := "under the lock, flocks: no "
		if flocks {
			content = "under the lock, flocks: yes"
		}
		_, err := fa.WriteAt([]byte(content), 0)
		require.NoError(t, err)
		require.NoError(t, set(fa, unix.F_RDLCK, unix.LOCK_SH))
		require.NoError(t, set(fb, unix.F_RDLCK, unix.LOCK_SH))
		got := make([]byte, 100)
		n, _ := fb.ReadAt(got, 0)
		require.Equal(t, content, string(got[:n]))
		require.NoError(t, fa.Close())
		require.NoError(t, fb.Close())
	}
}

// losing writes content that is lost, to a file that stays open.
func losing(t *testing.T, m *mounted) *os.File {
	t.Helper()
	m.write(t, "f", string(make([]byte, 8192)))
	f := m.open(t, "f")
	m.Blocks.Fail(block.ErrNoSpace)
	_, err := f.WriteAt(make([]byte, 2<<20), 1<<20)
	require.NoError(t, err)
	return f
}

// The close of a duplicate, such as by a child process that ends, does not take the error from fsync.
func TestDuplicateOfADescriptor(t *testing.T) {
	m := mountHere(t)
	f := losing(t, m)
	d, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.ErrorIs(t, unix.Close(d), unix.ENOSPC)
	require.ErrorIs(t, f.Sync(), unix.ENOSPC)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	m.Blocks.Fail(nil)
}

// Pages of a mapping have an outcome of their own.
func TestMappedPagesAfterALoss(t *testing.T) {
	// This process serves the page faults of its own goroutine, which a collection of garbage would wait for.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	m := mountHere(t)
	f := losing(t, m)
	mem, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	d, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.ErrorIs(t, unix.Close(d), unix.ENOSPC, "it is lost")
	m.Blocks.Fail(nil) // there is space again
	copy(mem, "mapped")
	require.ErrorIs(t, unix.Msync(mem, unix.MS_SYNC), unix.ENOSPC, "it ends with an fsync, which tells the loss")
	require.NoError(t, unix.Msync(mem, unix.MS_SYNC))
	require.NoError(t, unix.Munmap(mem))
	other := m.Client(t, "us-west-2")
	other.Observe(m.client.Proofs())
	got, err := other.View(t.Context(), posix.Ino(m.stat(t, "f").Ino), make([]byte, 6), 0, 0)
	require.NoError(t, err)
	require.Equal(t, "mapped", string(got))
}

// A file whose inode is in another partition than its directory is ordered before it gets another name.
func TestRenameOfAFileElsewhere(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, os.Mkdir(m.path("us-west-2/d"), 0o755))
	dir := posix.Ino(m.stat(t, "us-west-2/d").Ino)
	require.NoError(t, m.client.Place(t.Context(), posix.Cred{}, dir, client.Placement{Region: "us-east-1"}))
	m.write(t, "us-west-2/d/target", "old")
	f, err := os.Create(m.path("us-west-2/d/tmp"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("new content")
	require.NoError(t, err)
	require.NoError(t, os.Rename(m.path("us-west-2/d/tmp"), m.path("us-west-2/d/target")))
	other := m.Client(t, "us-west-2")
	other.Observe(m.client.Proofs())
	a, err := other.Lookup(t.Context(), dir, "target")
	require.NoError(t, err)
	at, _ := other.At(a.Ino)
	beside, _ := other.At(dir)
	require.NotEqual(t, beside, at)
	require.EqualValues(t, len("new content"), a.Size)
}

// A handover passes on the losses that were not reported to programs, and `globalfs sync` reports them once.
func TestLossesAreHandedOver(t *testing.T) {
	m := mountHere(t)
	f := losing(t, m)
	_, err := unix.Getxattr(m.dir, XattrSync, make([]byte, 4096))
	require.ErrorIs(t, err, unix.EIO)
	_, err = unix.Getxattr(m.dir, XattrSync, make([]byte, 4096))
	require.NoError(t, err)
	handed, err := m.mount.Handover(t.Context())
	require.NoError(t, err)
	m.Blocks.Fail(nil)
	of, err := ClientState(handed)
	require.NoError(t, err)
	cfg := m.Config("us-west-2")
	cfg.Resume = of
	c, err := client.New(cfg)
	require.NoError(t, err)
	next, err := Take(Config{Client: c, Dir: m.dir}, handed)
	require.NoError(t, err)
	m.mount.Leave()
	require.ErrorIs(t, f.Sync(), unix.ENOSPC)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, next.Unmount())
	require.NoError(t, c.Close())
}
