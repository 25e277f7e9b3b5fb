package cli

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/mount"
)

// A move is shown with its total, rate and remaining time, once these are known.
func TestMoveProgress(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var total atomic.Int64
	p := moveProgress{total: &total}
	require.Equal(t, "nothing is left to move", p.done())
	task := func(moved uint64) *mount.Task { return &mount.Task{Target: "eu", Moved: moved} }
	require.True(t, p.add(task(0), start))
	require.Equal(t, "moving to eu: 0 inodes moved so far", p.line(after(1)))
	require.False(t, p.add(task(0), after(1)))
	total.Store(1202)
	require.True(t, p.add(task(400), after(2)))
	require.Equal(t, "moving to eu: 400 inodes moved so far of at most 1202, 200/s, at most 4s left", p.line(after(2)))
	require.True(t, p.add(task(1300), after(4)), "entries were added meanwhile")
	require.Equal(t, "moving to eu: 1300 inodes moved so far of at most 1300, 325/s", p.line(after(4)))
	require.True(t, p.add(&mount.Task{Target: "eu", Moved: 1300, Paused: true}, after(4)))
	require.Equal(t, "moving to eu: 1300 inodes moved so far of at most 1300; paused", p.line(after(5)))
	require.Equal(t, "nothing is left to move: at least 1300 inodes were moved to eu", p.done())
}
