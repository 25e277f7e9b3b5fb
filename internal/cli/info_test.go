package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

// info shows a file with its extents and, for each block, the servers with a copy, as many as there are
// copies.
func TestInfo(t *testing.T) {
	dir, _ := clusterHere(t, 0)
	file := filepath.Join(dir, "us-west-2", "file")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 300_000), 0o640))
	small := filepath.Join(dir, "small")
	require.NoError(t, os.WriteFile(small, []byte("x"), 0o600))

	var found []described
	require.NoError(t, json.Unmarshal([]byte(run(t, "info", "-o", "json", file, small, dir)), &found))
	require.Len(t, found, 3)
	c := found[0].Content
	require.EqualValues(t, 3_000_000, found[0].Size)
	require.True(t, c.Complete)
	require.NotZero(t, c.Blocks)
	require.Empty(t, c.Unknown)
	require.Len(t, c.First, int(c.Extents))
	for _, e := range c.First {
		require.Len(t, e.Holders, found[0].Copies, "%+v", e)
		require.NotEmpty(t, e.Block)
	}
	require.EqualValues(t, 1, found[1].Content.Inline)
	require.Empty(t, found[1].Content.First[0].Holders)
	require.Nil(t, found[2].Content, "a directory")

	text := run(t, "info", file)
	require.Contains(t, text, "(file, -rw-r-----, links: 1)")
	require.Regexp(t, `at 0 +\S+ \S+ block \S+ on us-west-2[abc]`, text)
	require.Contains(t, run(t, "info", small), "1 B in the metadata")
	require.Contains(t, fails(t, command.ExitFailure, "info", t.TempDir()), "not on a GlobalFS mount")
	require.Contains(t, fails(t, command.ExitUsage, "info"), "give the PATH")
}

// info counts the holes of a sparse file, and reports that a file has more extents than shown.
func TestInfoOfManyExtents(t *testing.T) {
	dir, _ := mountHere(t)
	path := filepath.Join(dir, "file")
	f, err := os.Create(path)
	require.NoError(t, err)
	const pieces = 100
	for i := range int64(pieces) {
		_, err := f.WriteAt([]byte("data"), i*100_000)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(20_000_000))
	require.NoError(t, f.Close())
	found, err := infoAll(t.Context(), []string{path})
	require.NoError(t, err)
	c := found[0].Content
	require.EqualValues(t, pieces, c.Extents)
	require.Less(t, len(c.First), pieces)
	require.EqualValues(t, 20_000_000-4*pieces, c.Holes)
	require.EqualValues(t, 4*pieces, c.Inline+4*c.Blocks)
	require.True(t, c.Complete)
	require.Regexp(t, `\.\.\. +\d+ more`, run(t, "info", path))
}

// tree makes files: 3 directories, 5 names of 4 inodes, 1,111 bytes.
func tree(t *testing.T, dir string) {
	for path, length := range map[string]int{"a": 1, "d/b": 10, "d/e/c": 100, "d/e/x": 1000} {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), length), 0o600))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "d", "again")))
}

func TestDu(t *testing.T) {
	root, _ := mountHere(t)
	dir := filepath.Join(root, "projects")
	require.NoError(t, os.Mkdir(dir, 0o755))
	tree(t, dir)
	var found []usage
	require.NoError(t, json.Unmarshal([]byte(run(t, "du", "-o", "json", "--by-region", dir)), &found))
	require.Len(t, found, 1)
	u := found[0]
	require.Equal(t, []uint64{4, 3, 1111}, []uint64{u.Files, u.Directories, u.Size}, "an inode with two names counts once")
	require.Equal(t, map[string]uint64{"global": u.Used}, u.Regions)
	require.Empty(t, u.Children)
	require.Regexp(t, `(?m)^\S+ \S+ +1\.1 KiB +4 +3 +`+dir+`$`, run(t, "du", dir))
	require.Regexp(t, `(?m)^\S+ \S+ +in global$`, run(t, "du", "--by-region", dir))

	var s usage
	require.NoError(t, json.Unmarshal([]byte(run(t, "summary", "-o", "json", dir)), &s))
	require.EqualValues(t, 1111, s.Size)
	require.Len(t, s.Children, 2)
	require.Equal(t, filepath.Join(dir, "d"), s.Children[0].Path, "the largest first")
	require.Empty(t, s.Children[0].Children[0].Children, "two levels")
	text := run(t, "summary", "--depth", "1", "--entries", "1", dir)
	require.Contains(t, text, dir+"/d/\n")
	require.Equal(t, strings.Fields(text)[:5], strings.Fields(run(t, "du", dir))[:5], "the same columns")
	require.Contains(t, text, "... 1 more\n")
	require.Contains(t, fails(t, command.ExitInput, "summary", "--depth", "0", dir), "give positive numbers")
	require.Contains(t, fails(t, command.ExitUsage, "summary", dir, dir), "takes one PATH")
	require.Contains(t, fails(t, command.ExitFailure, "du", filepath.Join(dir, "none")), "no such file")
}

// warmup reads all files below its paths, and goes on after one that cannot be read.
func TestWarmup(t *testing.T) {
	root, _ := mountHere(t)
	dir := filepath.Join(root, "projects")
	require.NoError(t, os.Mkdir(dir, 0o755))
	tree(t, dir)
	var found usage
	require.NoError(t, json.Unmarshal([]byte(run(t, "summary", "-o", "json", dir)), &found))
	var done warmed
	require.NoError(t, json.Unmarshal([]byte(run(t, "warmup", "-o", "json", dir)), &done))
	require.GreaterOrEqual(t, done.Bytes, found.Size)
	require.NotZero(t, done.Files)
	files := done.Files
	require.Regexp(t, `^\d+ files, \S+ KiB, in \S+ s\n$`, run(t, "warmup", dir))
	require.Contains(t, fails(t, command.ExitFailure, "warmup", filepath.Join(dir, "none"), dir), "no such file")
	require.Contains(t, fails(t, command.ExitUsage, "warmup"), "give the PATH")

	w, ctx := &warming{}, t.Context()
	require.Error(t, w.run(ctx, []string{filepath.Join(dir, "none"), dir}))
	require.Equal(t, files, w.files.Load(), "the other path was read")
	require.Equal(t, "MiB", w.state(ctx).Unit)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	w = &warming{}
	require.ErrorIs(t, w.run(ended, []string{dir}), context.Canceled)
	require.Zero(t, w.bytes.Load())
}

// The end of the context ends a walk of any number of directories.
func TestWalkIsInterrupted(t *testing.T) {
	root, _ := mountHere(t)
	dir := filepath.Join(root, "projects")
	require.NoError(t, os.Mkdir(dir, 0o755))
	tree(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	w := &walk{region: func(context.Context, string) (string, error) {
		cancel()
		return "", nil
	}}
	_, err := w.of(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
}

// lines collects the written text.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Progress is shown after a while, and not for quick commands.
func TestProgress(t *testing.T) {
	var out lines
	meter := new(progress.Meter)
	meter.Count(400, "inodes", "working")
	state := func(context.Context) progress.State { return meter.State() }
	stop := showProgress(t.Context(), &out, state)
	stop()
	require.Empty(t, out.String())
	stop = showProgress(t.Context(), &out, state)
	require.Eventually(t, func() bool { return out.String() != "" }, time.Minute, 10*time.Millisecond)
	stop()
	require.Contains(t, out.String(), "working: 0 of 400 inodes (0 %)\n")
}
