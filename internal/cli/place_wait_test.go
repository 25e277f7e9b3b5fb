package cli

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/progress"
)

// A move is shown with its total once that is known.
func TestMoveProgress(t *testing.T) {
	var total atomic.Int64
	m := &moving{path: "d", total: &total}
	require.Equal(t, "d: nothing is left to move", m.done().String())
	require.Equal(t, progress.State{Doing: "d: the mount has not answered yet"}, m.state(t.Context()))
	m.last.Store(&mount.Task{Target: "eu"})
	require.Equal(t, progress.State{Doing: "d: moving to eu", Unit: "inodes"}, m.state(t.Context()))
	require.Equal(t, "d: nothing is left to move to eu (inodes moved: at least 0)", m.done().String())
	total.Store(1202)
	m.last.Store(&mount.Task{Target: "eu", Moved: 400})
	require.Equal(t, progress.State{Doing: "d: moving to eu", Unit: "inodes", Done: 400, Total: 1202}, m.state(t.Context()))
	require.Equal(t, "d: nothing is left to move to eu (inodes in the directory: 1202)", m.done().String())
	m.last.Store(&mount.Task{Target: "eu", Moved: 1300, Paused: true}) // entries were added meanwhile
	require.Equal(t, progress.State{Doing: "d: moving to eu (paused)", Unit: "inodes", Done: 1300, Total: 1300}, m.state(t.Context()))
	require.Equal(t, "d: nothing is left to move to eu (inodes in the directory: 1300)", m.done().String())
}
