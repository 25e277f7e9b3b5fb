package mount

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

func TestOptions(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a := mountOf(t, n)
	a.write(t, "f", "x")
	dir := t.TempDir()
	c := n.Client(t, "us-west-2")
	c.Observe(a.client.Proofs())
	m, err := New(Config{Client: c, Dir: dir, Options: Options{Flags: mountpoint.Flags{ReadOnly: true}, FsName: "west,mine"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Unmount()) }()
	there, ok := mountpoint.At(dir)
	require.True(t, ok)
	require.Equal(t, mountpoint.FileSystem{Device: there.Device, Kind: mountpoint.FSType, Source: "west,mine"}, there)
	content, err := os.ReadFile(dir + "/f")
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	require.ErrorIs(t, os.WriteFile(dir+"/g", nil, 0o644), unix.EROFS)
	asNobody(t, func() error { _, err := os.Stat(dir + "/f"); return err })
}

// The flags of a mount have their effect, and change in use.
func TestFlags(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	mountOf(t, n) // or skips
	dir := t.TempDir()
	m, err := New(Config{Client: n.Client(t, "us-west-2"), Dir: dir, Options: Options{Flags: mountpoint.Flags{NoExec: true, Dev: true}}})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Unmount()) }()
	flags, err := mountpoint.FlagsOf(dir)
	require.NoError(t, err)
	require.Equal(t, mountpoint.Flags{NoExec: true, Dev: true}, flags)

	program := dir + "/program"
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	// A shell executes it: this process, which serves the mount, cannot wait for its own child's execve.
	execute := func() (code int) {
		cmd := exec.Command("/bin/sh", "-c", program)
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	}
	require.Equal(t, 126, execute())
	require.NoError(t, unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	require.NoError(t, os.WriteFile(dir+"/null", []byte("x"), 0o666), "with dev, a device file works")

	for _, want := range []mountpoint.Flags{{ReadOnly: true, NoSymFollow: true}, {Suid: true}, {}} {
		require.NoError(t, mountpoint.Remount(dir, want))
		flags, err := mountpoint.FlagsOf(dir)
		require.NoError(t, err)
		require.Equal(t, want, flags)
		err = os.WriteFile(dir+"/f", nil, 0o644)
		require.Equal(t, want.ReadOnly, errors.Is(err, unix.EROFS), "%v", err)
	}
	require.Zero(t, execute())
	_, err = os.ReadFile(dir + "/null")
	require.ErrorIs(t, err, unix.EACCES, "without dev, a device file has no effect")
}

func TestAccess(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	mountOf(t, n) // or skips
	for access, want := range map[Access]bool{AccessDefault: true, AllUsers: true, OnlyOwner: false} {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // others may pass
		m, err := New(Config{Client: n.Client(t, "us-west-2"), Dir: dir, Options: Options{Access: access}})
		require.NoError(t, err)
		look := exec.Command("stat", dir)
		look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		said, err := look.CombinedOutput()
		require.Equal(t, want, err == nil, "%s: %s", access, said)
		require.NoError(t, m.Unmount())
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for want, o := range map[string]Options{
		`access "others": use "all", "user" or nothing`: {Access: "others"},
		"use at most 255 bytes in one line":             {FsName: "a\nb"},
	} {
		_, err := New(Config{Dir: t.TempDir(), Options: o})
		require.ErrorContains(t, err, want)
	}
}
