package mover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

func (w *world) rename(from, to client.Name) {
	w.Helper()
	require.NoError(w, w.Rename(w.Context(), root, from, to, 0))
}

func at(dir posix.Ino, name string) client.Name { return client.Name{Dir: dir, Name: name} }

// A move does not enter a directory that has its own placement, and does not enter the roots of partitions.
func TestStopsAtOtherPlacements(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		sub := w.mkdir(posix.Root, "sub")
		placed := w.mkdir(sub, "placed")
		below := w.mkdir(placed, "below")
		file := w.file(below, "file", large(1))
		beside := w.file(sub, "beside", large(2))
		require.NoError(t, w.Place(w.Context(), root, placed, client.Placement{Region: client.Global}))
		local := w.file(w.network.Plan.Partitions[2].Root(), "local", nil)

		w.place(posix.Root, west)
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(1, sub, beside)
		w.requireAt(0, posix.Root, placed, below, file)
		w.requireAt(2, local, w.network.Plan.Partitions[2].Root())
		w.requireSound()
	})
}

// A directory that was renamed into another partition follows its new parent.
func TestFollowsARename(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		tree := w.mkdir(posix.Root, "tree")
		files := w.fill(w.mkdir(tree, "sub"), 20)
		w.rename(at(posix.Root, "tree"), at(w.network.Plan.Partitions[1].Root(), "tree"))
		require.Len(t, w.tasks(), 1)
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(1, tree)
		w.requireAt(1, files...)
		w.requireSound()
	})
}

// Renames faster than the mover leave a task in each partition that had the directory: the last task counts.
func TestFollowsTheLastRename(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		tree := w.mkdir(posix.Root, "tree")
		files := w.fill(tree, 200)
		roots := []posix.Ino{posix.Root, w.network.Plan.Partitions[1].Root(), w.network.Plan.Partitions[2].Root()}
		w.rename(at(roots[0], "tree"), at(roots[1], "tree"))
		defer w.start(mover.Config{PerSecond: 20})()
		w.until("the directory itself is moved", func() bool { _, at, err := w.Where(w.Context(), tree); return err == nil && at == 1 })
		w.rename(at(roots[1], "tree"), at(roots[2], "tree"))
		require.Len(t, w.tasks(), 2)
		w.untilMoved()
		w.requireAt(2, tree)
		w.requireAt(2, files...)
		w.requireSound()
	})
}

// A directory that was renamed away and back needs no move.
func TestRenamedBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		tree := w.mkdir(posix.Root, "tree")
		file := w.file(tree, "file", nil)
		local := w.network.Plan.Partitions[1].Root()
		w.rename(at(posix.Root, "tree"), at(local, "tree"))
		w.rename(at(local, "tree"), at(posix.Root, "tree"))
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(0, tree, file)
	})
}

// A rename leaves a task inside a subtree that moves elsewhere: the outer task decides, and both end.
func TestTaskInsideATask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		outer, inner := w.mkdir(posix.Root, "outer"), w.mkdir(w.network.Plan.Partitions[1].Root(), "inner")
		files := append(w.fill(outer, 100), w.fill(inner, 100)...)
		w.rename(at(w.network.Plan.Partitions[1].Root(), "inner"), at(outer, "inner"))
		require.Len(t, w.tasks(), 1, "inner to the global partition")
		w.place(outer, east)
		defer w.start(mover.Config{PerSecond: 20})()
		w.untilMoved()
		w.requireAt(2, outer, inner)
		w.requireAt(2, files...)
		w.requireSound()
	})
}

// The task of a directory that is removed ends.
func TestRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		w.place(top, west)
		require.NoError(t, w.Rmdir(w.Context(), root, at(posix.Root, "top")))
		defer w.start(mover.Config{})()
		w.untilMoved()
		require.NotContains(t, w.log.String(), "cannot")
	})
}

// Children of a directory with a spread go to the partitions of new children.
func TestSpread(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		var subs []posix.Ino
		for i := range 20 {
			subs = append(subs, w.mkdir(top, fmt.Sprint(i)))
			w.file(subs[i], "file", []byte("f"))
		}
		spread := client.Placement{Spread: []topology.Region{west, east}, Move: true}
		require.NoError(t, w.Place(w.Context(), root, top, spread))
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(1, top)
		counts := map[uint16]int{}
		for i, sub := range subs {
			_, partition, err := w.Where(w.Context(), sub)
			require.NoError(t, err)
			counts[partition]++
			require.Equal(t, 1, w.countAt(partition, sub), "with what is in it")
			fresh := w.mkdir(top, fmt.Sprintf("new%d", i))
			_, there, err := w.Where(w.Context(), fresh)
			require.NoError(t, err)
			counts[there+10]++
		}
		require.Len(t, counts, 4, "both regions have old ones and new ones: %v", counts)
		w.requireSound()
	})
}

// Files with names in two subtrees with different targets end in one of them, and both tasks end.
func TestNamesInTwoSubtrees(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.mkdir(posix.Root, "a"), w.mkdir(posix.Root, "b")
		files := w.fill(a, 60)
		for i, file := range slices.Backward(files) { // so that the two walks meet, and neither is done when the other begins anew
			_, err := w.Link(w.Context(), root, file, at(b, fmt.Sprint(i)))
			require.NoError(t, err)
		}
		w.place(a, west)
		w.place(b, east)
		defer w.start(mover.Config{PerSecond: 50})()
		w.untilMoved()
		w.requireAt(1, a)
		w.requireAt(2, b)
		for _, file := range files {
			_, partition, err := w.Where(w.Context(), file)
			require.NoError(t, err)
			require.Contains(t, []uint16{1, 2}, partition)
		}
		require.Contains(t, w.log.String(), "it also has a name in a subtree that moves elsewhere")
		w.requireSound()
	})
}

// tooLarge makes a directory that is too large for one command.
func (w *world) tooLarge(dir posix.Ino, name string) posix.Ino {
	w.Helper()
	made := w.mkdir(dir, name)
	value := make([]byte, posix.MaxXattr)
	for i := range 70 {
		require.NoError(w, w.SetXattr(w.Context(), root, made, fmt.Sprintf("user.%d", i), value, 0))
	}
	return made
}

// A directory that does not fit one command stays, is logged once, and its contents move.
func TestTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		many := w.tooLarge(top, "many")
		file := w.file(many, "file", nil)
		w.place(top, west)
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(0, many)
		w.requireAt(1, top, file)
		require.Equal(t, 1, strings.Count(w.log.String(), fmt.Sprintf("inode=%d", many)))
		require.Contains(t, w.log.String(), "stuck=1")
		w.requireSound()
	})
}

// Where a directory cannot move, a rename into it leaves a task that would never agree with the outer one.
func TestTaskInsideWhatCannotMove(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		many := w.tooLarge(top, "many")
		local := w.network.Plan.Partitions[1].Root()
		inner := w.mkdir(local, "inner")
		files := w.fill(inner, 40)
		w.rename(at(local, "inner"), at(many, "inner"))
		require.Len(t, w.tasks(), 1, "inner to where many is")
		w.place(top, east)
		defer w.start(mover.Config{PerSecond: 20})()
		w.untilMoved()
		w.requireAt(0, many)
		w.requireAt(2, top, inner)
		w.requireAt(2, files...)
		require.Equal(t, 1, strings.Count(w.log.String(), "is where it should be"), "the outer one only came to its end")
		w.requireSound()
	})
}

// The partition of a file in an entry may be outdated.
func TestOldHint(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(w.network.Plan.Partitions[1].Root(), "top")
		many := w.tooLarge(top, "many") // stays with an entry that is never corrected
		file := w.file(posix.Root, "file", nil)
		_, err := w.Link(w.Context(), root, file, at(many, "file"))
		require.NoError(t, err)
		_, err = w.Move(w.Context(), file, 2)
		require.NoError(t, err)
		w.place(top, client.Global)
		defer w.start(mover.Config{})()
		w.untilMoved()
		w.requireAt(1, many)
		w.requireAt(0, top, file)
	})
}

// An inode that comes into the subtree behind the walk is moved by the next walk.
func TestBehindTheWalk(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		dirs := []posix.Ino{top, w.mkdir(top, "a"), w.mkdir(top, "b")}
		for _, dir := range dirs {
			w.fill(dir, 50)
		}
		outside := w.fill(posix.Root, len(dirs)) // they stay in their partition when they get a second name
		w.place(top, west)
		defer w.start(slowly)()
		w.until("files are moved in each directory", func() bool { n, _ := w.moved(); return n > 110 })
		for i, dir := range dirs {
			_, err := w.Link(w.Context(), root, outside[i], at(dir, "late"))
			require.NoError(t, err)
		}
		w.untilMoved()
		w.requireAt(1, outside...)
		w.requireSound()
	})
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, cfg := range map[string]mover.Config{
		"Client":   {},
		"interval": {Client: &client.Client{}, Interval: -1},
		"tasks":    {Client: &client.Client{}, Tasks: -1},
	} {
		_, err := mover.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
