package mount

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestContents(t *testing.T) {
	m := mountHere(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	m.write(t, "f", string(want))
	require.Equal(t, string(want), m.read(t, "f"))
	st := m.stat(t, "f")
	require.EqualValues(t, len(want), st.Size)
	require.EqualValues(t, (len(want)+511)/512, st.Blocks)
	require.EqualValues(t, 1<<20, st.Blksize)

	f, err := os.OpenFile(m.path("f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("XYZ"), 1_000_000)
	require.NoError(t, err)
	copy(want[1_000_000:], "XYZ")
	require.NoError(t, f.Truncate(2_000_000))
	require.NoError(t, f.Truncate(2_500_000))
	want = append(want[:2_000_000], make([]byte, 500_000)...)
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 100_000))
	clear(want[4096:104_096])
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 2_400_000, 200_000))
	want = append(want, make([]byte, 100_000)...)
	require.NoError(t, f.Sync())
	require.True(t, string(want) == m.read(t, "f"))
	require.ErrorIs(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, 4096), unix.EOPNOTSUPP)

	hole, err := f.Seek(0, unix.SEEK_HOLE)
	require.NoError(t, err)
	require.EqualValues(t, 4096, hole)
	data, err := f.Seek(hole, unix.SEEK_DATA)
	require.NoError(t, err)
	require.EqualValues(t, 104_096, data)

	m.write(t, "f", "short")
	require.Equal(t, "short", m.read(t, "f"), "O_TRUNC")
}

// mapVariable names the file for TestMapIt.
const mapVariable = "GLOBALFS_TEST_MAP"

func TestMappings(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", string(make([]byte, 3*4096)))
	// A page fault stops a thread where the runtime does not expect it: in the process that serves the mount
	// the fault could wait for itself.
	child := exec.Command(os.Args[0], "-test.run=^TestMapIt$")
	child.Env = append(os.Environ(), mapVariable+"="+m.path("f"))
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	want := make([]byte, 3*4096)
	copy(want[4096:], "through the mapping")
	require.Equal(t, string(want), m.read(t, "f"), "a page of a mapping is no append")
	b := make([]byte, 19)
	_, err = m.client.Read(t.Context(), posix.Ino(m.stat(t, "f").Ino), b, 4096)
	require.NoError(t, err)
	require.Equal(t, "through the mapping", string(b), "it reached the servers")
}

// TestMapIt is the process that TestMappings starts.
func TestMapIt(t *testing.T) {
	path := os.Getenv(mapVariable)
	if path == "" {
		t.Skip("by design: only as a child of TestMappings")
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	shared, err := unix.Mmap(int(f.Fd()), 0, 3*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	private, err := unix.Mmap(int(f.Fd()), 0, 3*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	require.NoError(t, err)
	copy(shared[4096:], "through the mapping")
	copy(private, "never seen")
	require.NoError(t, unix.Msync(shared, unix.MS_SYNC))
	require.NoError(t, unix.Munmap(private))
	require.NoError(t, unix.Munmap(shared))
}

func TestUnlinkedWhileOpen(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "content")
	f, err := os.OpenFile(m.path("f"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.path("f")))
	b := make([]byte, 7)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "content", string(b))
	_, err = f.WriteAt([]byte("C"), 0)
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	require.Zero(t, st.Nlink)
	require.NoError(t, f.Close())
	_, err = os.Stat(m.path("f"))
	require.ErrorIs(t, err, unix.ENOENT)
}

// The kernel does not read pages of a file again if the file has not changed since its last open.
func TestUnchangedFileStaysInTheKernel(t *testing.T) {
	m := mountHere(t)
	content := strings.Repeat("0123456789abcdef", 1<<18)
	m.write(t, "f", content)
	m.read(t, "f")
	replicas := m.Processes(0, "us-west-2")
	before := m.Calls(replicas...)
	require.Equal(t, content, m.read(t, "f"))
	require.LessOrEqual(t, m.Calls(replicas...)-before, 3, "it is looked at, not read")
	m.write(t, "f", "other")
	require.Equal(t, "other", m.read(t, "f"))
}

// A file is longer than one request of the kernel, and is written by appends.
func TestAppend(t *testing.T) {
	m := mountHere(t)
	f, err := os.OpenFile(m.path("f"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	require.NoError(t, err)
	defer f.Close()
	line := strings.Repeat("x", 3<<20) + "\n"
	for range 3 {
		_, err := f.WriteString(line)
		require.NoError(t, err)
	}
	require.Equal(t, strings.Repeat(line, 3), m.read(t, "f"))
}

// A reservation of more than the free space fails, as on a local disk.
func TestReserveMoreThanThereIs(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	var free atomic.Int64
	free.Store(1 << 30)
	m := mountWith(t, n, func(cfg *client.Config) {
		cfg.Usage = func(context.Context) (uint64, uint64, error) {
			return 1 << 40, uint64(free.Load()) * uint64(max(cfg.Cluster.Copies, 1)), nil
		}
	})
	f, err := os.Create(m.path("f"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for _, mode := range []uint32{0, unix.FALLOC_FL_KEEP_SIZE} {
		require.ErrorIs(t, unix.Fallocate(int(f.Fd()), mode, 0, 2*free.Load()+1), unix.ENOSPC)
		require.NoError(t, unix.Fallocate(int(f.Fd()), mode, 0, free.Load()))
	}
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, free.Load()+1), "a hole needs no space")
	free.Store(100 << 20)
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, 1<<30), "the file has so many bytes")
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, 1<<30+100<<20))
	require.ErrorIs(t, unix.Fallocate(int(f.Fd()), 0, 0, 1<<30+201<<20), unix.ENOSPC)
}
