package mount

import (
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
	m, err := New(Config{Client: c, Dir: dir, Options: Options{ReadOnly: true, FsName: "west,mine"}})
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
