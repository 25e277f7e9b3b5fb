package mount

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
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
	for _, want := range []string{"f", strings.Repeat("long/", 100), strings.Repeat("x", unix.PathMax-1)} {
		require.NoError(t, os.Symlink(want, m.path("s")))
		target, err := os.Readlink(m.path("s"))
		require.NoError(t, err)
		require.Equal(t, want, target)
		require.NoError(t, os.Remove(m.path("s")))
	}
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

// contentChanges are the ways to change the content of a file, by their names.
func contentChanges(m *mounted) map[string]func(f *os.File) error {
	source := func(do func(from *os.File) error) error {
		from, err := os.Open(m.path("source"))
		if err != nil {
			return err
		}
		defer from.Close()
		return do(from)
	}
	opened := func(name string, flags int, do func(f *os.File) error) error {
		f, err := os.OpenFile(m.path(name), os.O_WRONLY|flags, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(f)
	}
	changes := map[string]func(f *os.File) error{
		"write":            func(f *os.File) error { _, err := f.Write([]byte("x")); return err },
		"pwrite":           func(f *os.File) error { _, err := f.WriteAt([]byte("x"), 3); return err },
		"truncate":         func(f *os.File) error { return f.Truncate(1) },
		"grow":             func(f *os.File) error { return f.Truncate(100) },
		"truncate by name": func(*os.File) error { return os.Truncate(m.path("truncate by name"), 1) },
		"append": func(*os.File) error {
			return opened("append", os.O_APPEND, func(f *os.File) error { _, err := f.Write([]byte("x")); return err })
		},
		"open": func(*os.File) error {
			return opened("open", os.O_TRUNC, func(*os.File) error { return nil })
		},
		"copy_file_range": func(f *os.File) error {
			return source(func(from *os.File) error {
				n, err := unix.CopyFileRange(int(from.Fd()), nil, int(f.Fd()), nil, 3, 0)
				if err == nil && n != 3 {
					err = io.ErrShortWrite
				}
				return err
			})
		},
		"sendfile": func(f *os.File) error {
			return source(func(from *os.File) error {
				n, err := unix.Sendfile(int(f.Fd()), int(from.Fd()), nil, 3)
				if err == nil && n != 3 {
					err = io.ErrShortWrite
				}
				return err
			})
		},
	}
	for name, mode := range map[string]uint32{
		"fallocate": 0, "reserve": unix.FALLOC_FL_KEEP_SIZE,
		"punch": unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE,
		"zero":  unix.FALLOC_FL_ZERO_RANGE, "zero inside": unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE,
	} {
		changes[name] = func(f *os.File) error { return unix.Fallocate(int(f.Fd()), mode, 0, 4) }
	}
	return changes
}

// A change of the content by an unprivileged user removes the set-id bits, and one by root does not. This is
// also so if the user owns the file.
func TestSetIDGoesWithAWrite(t *testing.T) {
	m := mountHere(t)
	m.write(t, "source", "source")
	require.NoError(t, os.Chmod(m.path("source"), 0o644))
	for name, change := range contentChanges(m) {
		for by, left := range map[string]uint32{"another user": 0o777, "the owner": 0o777, "root": 0o6777} {
			m.write(t, name, "content")
			if by == "the owner" {
				require.NoError(t, os.Chown(m.path(name), nobody, nobody))
			}
			require.NoError(t, os.Chmod(m.path(name), 0o777|os.ModeSetuid|os.ModeSetgid))
			run := runAsNobody
			if by == "root" {
				run = func(do func() error) error { return do() }
			}
			require.NoError(t, run(func() error {
				f, err := os.OpenFile(m.path(name), os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				var st unix.Stat_t // the kernel knows the bits when the file is open
				if err := unix.Stat(m.path(name), &st); err != nil {
					return err
				}
				if st.Mode != unix.S_IFREG|0o6777 {
					return fmt.Errorf("mode %o before the change", st.Mode)
				}
				return change(f)
			}), "%s by %s", name, by)
			require.EqualValues(t, unix.S_IFREG|left, m.stat(t, name).Mode, "%s by %s", name, by)
			require.NoError(t, os.Remove(m.path(name)))
		}
	}
}

// A change of the owner or of the group removes the set-id bits, also of a file that is not changed
// otherwise. Bits of a directory, and the bit for mandatory locks, stay.
func TestSetIDGoesWithTheOwner(t *testing.T) {
	m := mountHere(t)
	owned := func(name string, mode os.FileMode) {
		m.write(t, name, "content")
		require.NoError(t, os.Chown(m.path(name), nobody, nobody))
		require.NoError(t, os.Chmod(m.path(name), mode))
	}
	for name, change := range map[string]func(path string) error{
		"chgrp":  func(path string) error { return os.Chown(path, -1, nobody) },
		"chown":  func(path string) error { return os.Chown(path, nobody, -1) },
		"both":   func(path string) error { return os.Chown(path, nobody, nobody) },
		"lchown": func(path string) error { return os.Lchown(path, nobody, nobody) },
		"fchown": func(path string) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Chown(-1, nobody)
		},
	} {
		for by, run := range map[string]func(func() error) error{"the owner": runAsNobody, "root": func(do func() error) error { return do() }} {
			owned(name, 0o777|os.ModeSetuid|os.ModeSetgid)
			require.NoError(t, run(func() error { return change(m.path(name)) }), "%s by %s", name, by)
			require.EqualValues(t, unix.S_IFREG|0o777, m.stat(t, name).Mode, "%s by %s", name, by)
			owned(name, 0o666|os.ModeSetgid) // without permission to execute for the group
			require.NoError(t, run(func() error { return change(m.path(name)) }), "%s by %s", name, by)
			require.EqualValues(t, unix.S_IFREG|0o2666, m.stat(t, name).Mode, "%s by %s", name, by)
		}
	}
	require.NoError(t, os.Mkdir(m.path("dir"), 0o777))
	require.NoError(t, os.Chmod(m.path("dir"), 0o777|os.ModeSetuid|os.ModeSetgid))
	require.NoError(t, os.Chown(m.path("dir"), nobody, nobody))
	require.EqualValues(t, unix.S_IFDIR|0o6777, m.stat(t, "dir").Mode)
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
