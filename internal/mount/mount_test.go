package mount

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

var spec = topology.Spec{Regions: []topology.Region{"us-west-2", "us-east-1"}, Datacenters: 1, Replicas: 1, Copies: 1}

// mounted is a real mount over a cluster in memory.
type mounted struct {
	*clienttest.Network
	client *client.Client
	mount  *Mount
	dir    string
}

// mountHere mounts for the length of the test, or skips it where nothing can be mounted.
func mountHere(t *testing.T) *mounted {
	t.Helper()
	return mountOf(t, clienttest.New(t, spec, time.Minute))
}

func mountOf(t *testing.T, n *clienttest.Network) *mounted {
	t.Helper()
	if err := checkDevice("here"); err != nil || os.Geteuid() != 0 {
		t.Skipf("a mount needs root and /dev/fuse: %v", err)
	}
	c := n.Client(t, "us-west-2")
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // others may pass
	m, err := New(Config{Client: c, Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	return &mounted{n, c, m, dir}
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

func (m *mounted) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(m.path(name), []byte(content), 0o644))
}

func (m *mounted) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(m.path(name))
	require.NoError(t, err)
	return string(b)
}

func (m *mounted) stat(t *testing.T, name string) (st unix.Stat_t) {
	t.Helper()
	require.NoError(t, unix.Lstat(m.path(name), &st))
	return st
}

// TestPosix runs go-fuse's own suite.
func TestPosix(t *testing.T) {
	m := mountHere(t)
	for name, test := range posixtest.All {
		t.Run(name, func(t *testing.T) {
			if name == "FcntlFlockLocksFile" {
				t.Skip("expects what Linux does not do, as go-fuse says")
			}
			dir := m.path(name)
			require.NoError(t, os.Mkdir(dir, 0o755))
			test(t, dir)
		})
	}
}

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

func TestMappings(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", string(make([]byte, 3*4096)))
	f, err := os.OpenFile(m.path("f"), os.O_RDWR|os.O_APPEND, 0)
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
	want := make([]byte, 3*4096)
	copy(want[4096:], "through the mapping")
	require.Equal(t, string(want), m.read(t, "f"), "a page of a mapping is no append")
	b := make([]byte, 19)
	_, err = m.client.Read(t.Context(), posix.Ino(m.stat(t, "f").Ino), b, 4096)
	require.NoError(t, err)
	require.Equal(t, "through the mapping", string(b), "it reached the servers")
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

func TestHardLinksAndRename(t *testing.T) {
	m := mountHere(t)
	m.write(t, "a", "A")
	require.NoError(t, os.Link(m.path("a"), m.path("b")))
	require.EqualValues(t, 2, m.stat(t, "a").Nlink)
	require.NoError(t, os.Remove(m.path("a")))
	require.EqualValues(t, 1, m.stat(t, "b").Nlink, "at once through the other name")
	m.write(t, "c", "C")
	require.NoError(t, os.Link(m.path("c"), m.path("d")))
	require.NoError(t, os.Rename(m.path("b"), m.path("c")))
	require.EqualValues(t, 1, m.stat(t, "d").Nlink, "rename replaced its other name")
	require.Equal(t, "A", m.read(t, "c"))
	rename := func(from, to string, flags uint) error {
		return unix.Renameat2(unix.AT_FDCWD, m.path(from), unix.AT_FDCWD, m.path(to), flags)
	}
	require.ErrorIs(t, rename("c", "d", unix.RENAME_NOREPLACE), unix.EEXIST)
	require.NoError(t, rename("c", "d", unix.RENAME_EXCHANGE))
	require.Equal(t, "A", m.read(t, "d"))
	require.Equal(t, "C", m.read(t, "c"))
	require.ErrorIs(t, rename("c", "us-east-1/c", 0), unix.EXDEV)
	require.ErrorIs(t, os.Link(m.path("c"), m.path("us-east-1/c")), unix.EXDEV)
}

func TestLargeDirectory(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, os.Mkdir(m.path("us-east-1/d"), 0o755))
	dir, err := m.client.Lookup(t.Context(), m.Plan.Partitions[2].Root(), "d")
	require.NoError(t, err)
	const count = 10_000
	for i := range count {
		_, err := m.client.Mknod(t.Context(), posix.Cred{}, client.Name{Dir: dir.Ino, Name: fmt.Sprintf("%05d", i)}, posix.TypeRegular|0o644, 0)
		require.NoError(t, err)
	}
	require.Len(t, m.names(t, "us-east-1/d"), count)
	before := m.Calls(m.Processes(2, "us-east-1")[0])
	entries, err := os.ReadDir(m.path("us-east-1/d")) // with type, sorted
	require.NoError(t, err)
	require.Equal(t, "09999", entries[count-1].Name())
	require.Less(t, m.Calls(m.Processes(2, "us-east-1")[0])-before, 3*count/pageEntries+10, "pages, not requests of the kernel")

	// Remove while reading, as rm -r does.
	d, err := os.Open(m.path("us-east-1/d"))
	require.NoError(t, err)
	defer d.Close()
	for {
		names, err := d.Readdirnames(100)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		for _, name := range names {
			require.NoError(t, os.Remove(m.path("us-east-1/d/"+name)))
		}
	}
	require.Empty(t, m.names(t, "us-east-1/d"))
	require.NoError(t, os.Remove(m.path("us-east-1/d")))
}

func (m *mounted) names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(m.path(dir))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names
}

// A listing does not ask the partitions of what it names.
func TestListingNeedsNoOtherPartition(t *testing.T) {
	m := mountHere(t)
	m.Fail(clienttest.Silent, m.Processes(2, "us-east-1")...)
	defer m.Fail(clienttest.None, m.Processes(2, "us-east-1")...)
	require.Equal(t, []string{"us-east-1", "us-west-2"}, m.names(t, ""))
}

func TestXattrs(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "")
	path := m.path("f")
	large := bytes.Repeat([]byte("v"), 64<<10)
	require.NoError(t, unix.Setxattr(path, "user.large", large, unix.XATTR_CREATE))
	require.ErrorIs(t, unix.Setxattr(path, "user.large", nil, unix.XATTR_CREATE), unix.EEXIST)
	require.ErrorIs(t, unix.Setxattr(path, "user.none", nil, unix.XATTR_REPLACE), unix.ENODATA)
	size, err := unix.Getxattr(path, "user.large", nil)
	require.NoError(t, err)
	require.Equal(t, len(large), size)
	_, err = unix.Getxattr(path, "user.large", make([]byte, 10))
	require.ErrorIs(t, err, unix.ERANGE)
	require.NoError(t, unix.Setxattr(path, "trusted.t", []byte("1"), 0))
	list := make([]byte, 100)
	size, err = unix.Listxattr(path, list)
	require.NoError(t, err)
	require.Equal(t, "trusted.t\x00user.large\x00", string(list[:size]))
	require.NoError(t, unix.Removexattr(path, "user.large"))
	_, err = unix.Getxattr(path, "user.large", nil)
	require.ErrorIs(t, err, unix.ENODATA)
	for _, name := range []string{"security.label", "system.posix_acl_access", "system.other"} {
		require.ErrorIs(t, unix.Setxattr(path, name, []byte{2, 0, 0, 0}, 0), unix.EOPNOTSUPP, name)
		_, err = unix.Getxattr(path, name, nil)
		require.ErrorIs(t, err, unix.EOPNOTSUPP, name)
	}
}

func TestAttributes(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "x")
	require.NoError(t, os.Chmod(m.path("f"), 0o640|os.ModeSetuid))
	require.EqualValues(t, unix.S_IFREG|0o4640, m.stat(t, "f").Mode)
	require.NoError(t, os.Chown(m.path("f"), 7, 8))
	st := m.stat(t, "f")
	require.Equal(t, [3]uint32{7, 8, unix.S_IFREG | 0o640}, [3]uint32{st.Uid, st.Gid, st.Mode}, "a new owner takes set-id away")
	for _, at := range []int64{1e18, 1, -1, -2e18 + 5} {
		times := []unix.Timespec{unix.NsecToTimespec(at), unix.NsecToTimespec(at + 1)}
		require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, m.path("f"), times, 0))
		st = m.stat(t, "f")
		require.Equal(t, [2]int64{at, at + 1}, [2]int64{unix.TimespecToNsec(st.Atim), unix.TimespecToNsec(st.Mtim)})
	}
	require.NoError(t, os.Symlink("f", m.path("s")))
	target, err := os.Readlink(m.path("s"))
	require.NoError(t, err)
	require.Equal(t, "f", target)
	require.NoError(t, unix.Mkfifo(m.path("p"), 0o600))
	require.NoError(t, unix.Mknod(m.path("c"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	require.EqualValues(t, unix.Mkdev(1, 3), m.stat(t, "c").Rdev)

	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(m.dir, &fs))
	require.EqualValues(t, 4096, fs.Bsize)
	require.EqualValues(t, 255, fs.Namelen)
	require.InDelta(t, clienttest.StorageBytes/4096, fs.Bfree, 10)
	there, ok := mountedAt(m.dir)
	require.True(t, ok)
	require.Equal(t, "fuse.globalfs", there.kind)
	ahead, err := os.ReadFile("/sys/class/bdi/" + there.device + "/read_ahead_kb")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln(readAheadKB), string(ahead))
}

// A write by somebody else takes the set-id bits away.
func TestSetIDGoesWithAWrite(t *testing.T) {
	m := mountHere(t)
	for name, change := range map[string]func(f *os.File) error{
		"write":    func(f *os.File) error { _, err := f.Write([]byte("x")); return err },
		"truncate": func(f *os.File) error { return f.Truncate(1) },
		"open": func(*os.File) error {
			f, err := os.OpenFile(m.path("open"), os.O_WRONLY|os.O_TRUNC, 0)
			f.Close()
			return err
		},
	} {
		m.write(t, name, "content")
		require.NoError(t, os.Chmod(m.path(name), 0o777|os.ModeSetuid|os.ModeSetgid))
		asNobody(t, func() error {
			f, err := os.OpenFile(m.path(name), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			return change(f)
		})
		require.EqualValues(t, unix.S_IFREG|0o777, m.stat(t, name).Mode, name)
	}
}

// Two mounts of one tree.
func TestTwoMounts(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	a.write(t, "f", "first")
	b.client.Observe(a.client.Vector())
	require.Equal(t, "first", b.read(t, "f"))
	keep, err := os.Open(b.path("f"))
	require.NoError(t, err)
	defer keep.Close()
	a.write(t, "f", "second, and longer")
	b.client.Observe(a.client.Vector())
	require.Equal(t, "second, and longer", b.read(t, "f"), "close to open: pages and size are new")

	// The offset of an append is that of all mounts together.
	fa, err := os.OpenFile(a.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer fa.Close()
	b.client.Observe(a.client.Vector())
	fb, err := os.OpenFile(b.path("log"), os.O_APPEND|os.O_RDWR, 0)
	require.NoError(t, err)
	defer fb.Close()
	var want string
	for i := range 20 {
		for _, f := range []*os.File{fa, fb} {
			line := fmt.Sprintf("%s %d\n", f.Name()[len(f.Name())-8:], i)
			_, err := f.WriteString(line)
			require.NoError(t, err)
			want += line
		}
	}
	require.Equal(t, want, b.read(t, "log"))

	// A directory that is gone takes no file.
	require.NoError(t, os.Mkdir(a.path("d"), 0o755))
	b.client.Observe(a.client.Vector())
	_, err = os.Stat(b.path("d"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(a.path("d")))
	b.client.Observe(a.client.Vector())
	require.ErrorIs(t, os.WriteFile(b.path("d/f"), nil, 0o644), unix.ENOENT)

	// A file that another mount has just made is opened with its permissions, or not at all.
	_, err = os.Stat(b.path("secret"))
	require.ErrorIs(t, err, unix.ENOENT)
	require.NoError(t, os.WriteFile(a.path("secret"), []byte("s"), 0o600))
	require.NoError(t, os.Chmod(b.dir, 0o777))
	b.client.Observe(a.client.Vector())
	asNobodyFails(t, unix.EACCES, func() error {
		f, err := os.OpenFile(b.path("secret"), os.O_CREATE|os.O_RDWR, 0o644)
		if err == nil {
			f.Close()
		}
		return err
	})
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "make it with 'mkdir -p",
		file:                       "not a directory",
		"/proc":                    "busy: a file system (proc) is mounted there",
	} {
		_, err := New(Config{Dir: path})
		require.ErrorContains(t, err, want)
	}
}

func TestFindMount(t *testing.T) {
	const table = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:40 / /mnt/a\040b rw,nosuid shared:5 - fuse.globalfs globalfs rw
41 22 0:41 / /mnt/x rw - tmpfs tmpfs rw
42 41 0:42 / /mnt/x rw - fuse.globalfs globalfs rw
broken
`
	for path, want := range map[string]mountedFS{
		"/mnt/a b": {"0:40", "fuse.globalfs"}, "/mnt/x": {"0:42", "fuse.globalfs"}, "/mnt": {}, "/": {"8:1", "ext4"},
	} {
		got, ok := findMount(table, path)
		require.Equal(t, want, got)
		require.Equal(t, want != mountedFS{}, ok)
	}
}

func TestUnmountOfABusyMount(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "x")
	f, err := os.Open(m.path("f"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, m.mount.Unmount())
	m.mount.Wait()
	_, ok := mountedAt(m.dir)
	require.False(t, ok)
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.Error(t, err)
	require.NoError(t, m.mount.Unmount(), "again")
}

func TestUnmountFromOutside(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, unix.Unmount(m.dir, 0))
	m.mount.Wait()
	require.NoError(t, m.mount.Unmount())
}

// What cannot be served fails in time, and a signal ends a wait.
func TestNothingHangs(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	m := mountOf(t, n)
	m.write(t, "f", "x")
	replicas := n.Processes(0, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	defer n.Fail(clienttest.None, replicas...)
	before := n.Calls(replicas...)
	child, err := os.StartProcess("/bin/cat", []string{"cat", m.path("g")}, &os.ProcAttr{})
	require.NoError(t, err)
	n.AwaitCalls(before+1, replicas...)
	start := time.Now()
	require.NoError(t, child.Signal(syscall.SIGKILL))
	_, err = child.Wait()
	require.NoError(t, err)
	require.Less(t, time.Since(start), 2*patience)
}
