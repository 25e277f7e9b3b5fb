package dev

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// attribute returns a control attribute of a file on a mount.
func attribute(t *testing.T, path, name string) string {
	t.Helper()
	value := make([]byte, posix.MaxXattr)
	n, err := unix.Getxattr(path, name, value)
	require.NoError(t, err, path)
	return string(value[:n])
}

func setAttribute(t *testing.T, path, name, value string) {
	t.Helper()
	require.NoError(t, unix.Setxattr(path, name, []byte(value), 0), path)
}

// A placed tree moves to its region while it is read and written in that and another region. Afterwards it is
// complete.
func TestPlacedTreeMoves(t *testing.T) {
	c := start(t, testConfig(t.TempDir()))
	near, far := mountIn(t, c, "us-west-2"), mountIn(t, c, "eu-west-1")
	want := map[string][]byte{}
	for d := range 5 {
		dir := filepath.Join("project", fmt.Sprint("d", d), "below")
		require.NoError(t, os.MkdirAll(filepath.Join(near, dir), 0o755))
		for f := range 4 {
			name := filepath.Join(dir, fmt.Sprint("f", f))
			want[name] = bytes.Repeat([]byte(name), 1+f*5000) // in the metadata and in blocks
			require.NoError(t, os.WriteFile(filepath.Join(near, name), want[name], 0o644))
		}
	}
	const kept = "project/d0/below/f0"
	open, err := os.OpenFile(filepath.Join(near, kept), os.O_RDWR|os.O_TRUNC, 0)
	require.NoError(t, err)
	defer open.Close()
	want[kept] = nil
	setAttribute(t, far, mount.XattrWait, attribute(t, near, mount.XattrToken))

	project := filepath.Join(near, "project")
	setAttribute(t, project, mount.XattrRegion, "eu-west-1")
	for i := 0; ; i++ {
		if _, err := unix.Getxattr(project, mount.XattrTask, nil); err == unix.ENODATA {
			break
		}
		line := fmt.Appendf(nil, "%d\n", i)
		_, err = open.Write(line)
		require.NoError(t, err, "an open file stays open")
		want[kept] = append(want[kept], line...)
		name := fmt.Sprint("project/d1/new", i%10)
		require.NoError(t, os.WriteFile(filepath.Join(far, name), line, 0o644))
		want[name] = line
	}
	last := mountIn(t, c, "us-east-1")
	setAttribute(t, last, mount.XattrWait, attribute(t, near, mount.XattrToken))
	setAttribute(t, last, mount.XattrWait, attribute(t, far, mount.XattrToken))
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(last, name))
		require.NoError(t, err, name)
		require.Equal(t, string(content), string(got), name)
		require.Equal(t, "eu-west-1", attribute(t, filepath.Join(last, name), mount.XattrRegion), name)
	}
	require.Equal(t, "global", attribute(t, last, mount.XattrRegion))
}

// A distant linearizable mount shows the completed operations of another one at once.
func TestLinearizableMounts(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions = cfg.Spec.Regions[:2]
	cfg.WAN, cfg.Linearizable = true, true
	c := start(t, cfg)
	at := func(region topology.Region) string {
		dir := t.TempDir()
		m, err := mount.New(mount.Config{Client: in(t, c, region).Client, Dir: dir, CacheTime: -1})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Unmount()) })
		return dir
	}
	a, b := at(cfg.Spec.Regions[0]), at(cfg.Spec.Regions[1])
	for _, dir := range []string{"", string(cfg.Spec.Regions[0])} {
		path := filepath.Join(dir, "f")
		for _, content := range []string{"first", "second"} {
			require.NoError(t, os.WriteFile(filepath.Join(a, path), []byte(content), 0o644))
			got, err := os.ReadFile(filepath.Join(b, path))
			require.NoError(t, err)
			require.Equal(t, content, string(got))
		}
		require.NoError(t, os.Rename(filepath.Join(b, path), filepath.Join(b, path+"2")))
		require.NoFileExists(t, filepath.Join(a, path))
	}
}
