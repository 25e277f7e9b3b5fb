package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// mountHere mounts a cluster in memory until the end of the test, or skips the test if it cannot mount.
func mountHere(t *testing.T) (dir string, n *clienttest.Network) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("a mount needs root and /dev/fuse")
	}
	n = clienttest.New(t, topology.Spec{Regions: []topology.Region{"us-west-2", "us-east-1"}, Datacenters: 1, Replicas: 1, Copies: 1}, time.Minute)
	dir = t.TempDir()
	m, err := mount.New(mount.Config{Client: n.Client(t, "us-west-2"), Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	return dir, n
}

// run returns the output of a successful command line.
func run(t *testing.T, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	require.Equal(t, command.ExitOK, Main(args, &out, &err), "%q: %s", args, &err)
	return out.String()
}

// fails returns the error text of a failed command line.
func fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	require.Equal(t, code, Main(args, &out, &err), "%q: %s%s", args, &out, &err)
	return err.String()
}

func TestPlaceAndWhere(t *testing.T) {
	root, _ := mountHere(t)
	dir := filepath.Join(root, "projects", "east")
	require.Empty(t, run(t, "place", "--region", "us-east-1", "--mkdir", "--no-move", dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644))
	text := run(t, "where", dir, filepath.Join(dir, "f"))
	for _, want := range []string{"global (partition 0)", "new entries go to us-east-1", "us-east-1 (partition 2)", "us-east-1a"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "moving")

	var out, stderr bytes.Buffer
	require.Equal(t, command.ExitFailure, Main([]string{"where", "-o", "json", filepath.Join(root, "none"), dir}, &out, &stderr))
	require.Contains(t, stderr.String(), "no such file")
	var found []located
	require.NoError(t, json.Unmarshal(out.Bytes(), &found), "the other one is shown all the same")
	require.Len(t, found, 1)
	require.Equal(t, dir, found[0].Path)
	require.Equal(t, &mount.Rule{Region: "us-east-1"}, found[0].Rule)

	require.Contains(t, run(t, "place", "--list", dir), "/projects/east  new entries go to us-east-1\n")
	require.Contains(t, fails(t, command.ExitInput, "place", "--region", "mars", dir), `there is no region "mars": give us-west-2, us-east-1 or global`)
	run(t, "place", "--spread", "us-west-2,us-east-1", "--no-move", dir)
	require.Contains(t, run(t, "where", dir), "spread over us-west-2, us-east-1")
	run(t, "place", "--clear", dir)
	for _, top := range []string{root, filepath.Join(root, "us-east-1")} {
		require.Contains(t, fails(t, command.ExitInput, "place", "--region", "us-west-2", top), "add --force")
		require.NotContains(t, run(t, "where", top), "new entries")
		run(t, "place", "--region", "us-west-2", "--no-move", "--force", top)
		require.Contains(t, run(t, "where", top), "new entries go to us-west-2")
		run(t, "place", "--clear", top)
	}
	require.NotContains(t, run(t, "where", dir), "new entries")
}

func TestPauseAndResume(t *testing.T) {
	root, _ := mountHere(t)
	require.Contains(t, fails(t, command.ExitFailure, "place", "--pause", root), "nothing is being moved")
	dir := filepath.Join(root, "d")
	run(t, "place", "--region", "us-east-1", "--mkdir", dir)
	run(t, "place", "--pause", dir)
	require.Contains(t, run(t, "where", dir), "to us-east-1: 0 inodes moved so far; paused")
	require.Contains(t, run(t, "place", "--list", root), "MOVING  PROGRESS\n/d      to us-east-1: 0 inodes moved so far; paused\n")
	run(t, "place", "--resume", dir)
	var tree placedTree
	require.NoError(t, json.Unmarshal([]byte(run(t, "place", "--list", "-o", "json", root)), &tree))
	require.Len(t, tree.Placements, 1)
	require.Len(t, tree.Tasks, 1)
	require.False(t, tree.Tasks[0].Paused)
}

// The progress of a move is shown until the move is done by any process. Ctrl-C ends only the display.
func TestAwaitMove(t *testing.T) {
	root, n := mountHere(t)
	dir := filepath.Join(root, "d")
	run(t, "place", "--region", "us-east-1", "--mkdir", dir)
	ctx, cancel := context.WithCancel(t.Context())
	show, lines := progressOf(ctx, dir)
	require.Contains(t, <-lines, dir+": moving to us-east-1: 0 of 1 inodes (0 %)")
	cancel()
	require.ErrorContains(t, <-show, "the move continues")

	mover := n.Client(t, "us-east-1")
	tasks, err := mover.Tasks(t.Context())
	require.NoError(t, err)
	require.Len(t, tasks, 1, "it is still to be done")
	setMoved := func(flags uint32, moved uint64) {
		task := tasks[0]
		task.Moved = moved
		require.NoError(t, mover.SetTask(t.Context(), task, flags))
	}
	show, lines = progressOf(t.Context(), dir)
	<-lines
	setMoved(0, 7)
	for line := range lines {
		if strings.Contains(line, "7 of 7 inodes") {
			break
		}
	}
	setMoved(meta.TaskDone, 7)
	require.NoError(t, <-show)
	require.JSONEq(t, `{"path": "`+dir+`", "moved": 0}`, run(t, "place", "--wait", "--output", "json", dir))
}

// progressOf runs awaitMove and returns its output, line by line.
func progressOf(ctx context.Context, dir string) (end <-chan error, lines <-chan string) {
	done, said := make(chan error, 1), make(chan string, 1000)
	go func() {
		_, err := awaitMove(ctx, dir, lineWriter(said))
		done <- err
		close(said)
	}()
	return done, said
}

// lineWriter sends each Write to a channel.
type lineWriter chan<- string

var _ io.Writer = lineWriter(nil)

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

func TestTokenAndWait(t *testing.T) {
	root, n := mountHere(t)
	other := n.Client(t, "us-east-1")
	_, err := other.Mkdir(t.Context(), clienttest.Root, client.Name{Dir: posix.Root, Name: "new"}, 0o755)
	require.NoError(t, err)
	require.Empty(t, run(t, "wait", other.Token(), root))
	require.DirExists(t, filepath.Join(root, "new"))
	token := run(t, "token", root)
	require.NoError(t, other.Wait(t.Context(), strings.TrimSpace(token)))
	require.Contains(t, fails(t, command.ExitInput, "wait", "no token", root), "not one that 'globalfs token' has printed")

	replicas := n.Processes(0, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	defer n.Fail(clienttest.None, replicas...)
	require.Contains(t, fails(t, command.ExitFailure, "wait", "--timeout", "100ms", strings.TrimSpace(token), root), "not there within 100ms")
}
