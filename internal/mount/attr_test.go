package mount

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/posix"
)

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
	there, ok := mountpoint.At(m.dir)
	require.True(t, ok)
	require.Equal(t, "fuse.globalfs", there.Kind)
	ahead, err := os.ReadFile("/sys/class/bdi/" + there.Device + "/read_ahead_kb")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln(8<<10), string(ahead))
}

// A write by another user removes the set-id bits.
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
		"fallocate": func(f *os.File) error { return unix.Fallocate(int(f.Fd()), 0, 0, 100) },
		"punch": func(f *os.File) error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4)
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
			var st unix.Stat_t // the kernel knows the bits when the file is open
			if err := unix.Stat(m.path(name), &st); err != nil {
				return err
			}
			require.EqualValues(t, unix.S_IFREG|0o6777, st.Mode, name)
			return change(f)
		})
		require.EqualValues(t, unix.S_IFREG|0o777, m.stat(t, name).Mode, name)
	}
}

func TestTimes(t *testing.T) {
	for _, at := range []posix.Time{0, 1, -1, 1e18, -1e18, math.MaxInt64 - 2e9, math.MinInt64 + 2e9} {
		require.Equal(t, at, join(split(at)))
	}
	late := join(1<<62, 5)
	require.Positive(t, late)
	early := join(uint64(1)<<63, 5) // far below 0
	require.Negative(t, early)
}

func TestSetAttr(t *testing.T) {
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{
		Valid: fuse.FATTR_MODE | fuse.FATTR_ATIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_KILL_SUIDGID | fuse.FATTR_FH,
		Mode:  unix.S_IFREG | 0o4755,
	}}
	set, a := setAttr(in)
	require.Equal(t, meta.SetMode|meta.SetAtime|meta.SetAtimeNow|meta.KillSetID, set)
	require.Equal(t, posix.Mode(0o4755), a.Mode)
}
