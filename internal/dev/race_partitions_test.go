package dev

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// shuttle is a file or directory that a mount in the first region renames back and forth between the
// directories of two regions. The number in its name grows with each rename: a client that sees a lower
// number after a higher one has gone back in time.
type shuttle struct {
	t       *testing.T
	dirs    [2]posix.Ino // inodes for clients
	content map[string][]byte
	inside  bool // the content is in a directory, not in the file itself
}

func (s *shuttle) name(n int) string { return fmt.Sprintf("shuttle.%d", n) }

// build makes the shuttle at a path of a mount.
func (s *shuttle) build(path string) {
	if !s.inside {
		require.NoError(s.t, os.WriteFile(path, s.content[""], 0o644))
		return
	}
	require.NoError(s.t, os.Mkdir(path, 0o755))
	for name, content := range s.content {
		require.NoError(s.t, os.WriteFile(filepath.Join(path, name), content, 0o644))
	}
}

// sighting is the result of one read of a directory.
type sighting struct {
	number  int // -1: the directory does not have it
	ino     posix.Ino
	version uint64 // of the partition: while it is the same, nothing has changed there
}

// look reads one of the directories.
func (s *shuttle) look(c *attach.Client, dir posix.Ino) (sighting, error) {
	entries, state, err := c.ReadDir(context.Background(), dir, 0, 100)
	seen := sighting{number: -1, version: state.Version}
	if err != nil {
		return seen, err
	}
	for _, e := range entries {
		if seen.number >= 0 {
			return seen, fmt.Errorf("a second name: %q beside %d", e.Name, seen.number)
		}
		if _, err := fmt.Sscanf(e.Name, "shuttle.%d", &seen.number); err != nil {
			return seen, fmt.Errorf("name %q: %w", e.Name, err)
		}
		seen.ino = e.Attr.Ino
	}
	return seen, nil
}

// check reads the whole shuttle and compares it.
func (s *shuttle) check(c *attach.Client, ino posix.Ino) error {
	if !s.inside {
		return s.checkFile(c, ino, s.content[""])
	}
	entries, _, err := c.ReadDir(context.Background(), ino, 0, 100)
	if err != nil {
		return err
	}
	if len(entries) != len(s.content) {
		return fmt.Errorf("%d files of %d", len(entries), len(s.content))
	}
	for _, e := range entries {
		if err := s.checkFile(c, e.Attr.Ino, s.content[e.Name]); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return nil
}

func (s *shuttle) checkFile(c *attach.Client, ino posix.Ino, want []byte) error {
	got := make([]byte, len(want)+1)
	n, err := c.Read(context.Background(), ino, got, 0)
	if err == nil && !bytes.Equal(got[:n], want) {
		err = fmt.Errorf("%d bytes, not the %d written", n, len(want))
	}
	return err
}

// walk reads both directories until done. The seen numbers never decrease. If the first directory has not
// changed around a read of the second one, the two reads show one state of the tree: then the shuttle must
// have exactly one name, and walk sends to stable.
func (s *shuttle) walk(c *attach.Client, done <-chan struct{}, stable chan<- int) (walks, stables int, err error) {
	last := -1
	see := func(dir posix.Ino) (sighting, error) {
		seen, err := s.look(c, dir)
		if err == nil && seen.number >= 0 && seen.number < last {
			err = fmt.Errorf("%d was seen after %d", seen.number, last)
		}
		last = max(last, seen.number)
		return seen, err
	}
	for ; ; walks++ {
		select {
		case <-done:
			return walks, stables, nil
		default:
		}
		var seen [3]sighting
		for i, dir := range []posix.Ino{s.dirs[0], s.dirs[1], s.dirs[0]} {
			if seen[i], err = see(dir); err != nil {
				return walks, stables, err
			}
			if seen[i].number >= 0 {
				if err := s.check(c, seen[i].ino); err != nil {
					return walks, stables, fmt.Errorf("number %d: %w", seen[i].number, err)
				}
			}
		}
		if seen[0].version != seen[2].version {
			continue
		}
		if (seen[0].number >= 0) == (seen[1].number >= 0) {
			return walks, stables, fmt.Errorf("in one state number %d in the first directory and %d in the second one (-1: none)", seen[0].number, seen[1].number)
		}
		stables++
		select {
		case stable <- max(seen[0].number, seen[1].number):
		default:
		}
	}
}

// A rename between two regions is atomic for all observers: a client in a third region never sees it undone,
// and in no state does it see the shuttle twice or not at all. This includes the content, which is moved
// meanwhile.
func TestRaceRenameBetweenRegions(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcde\n"), 20_000)
	for name, content := range map[string]map[string][]byte{
		"file":      {"": big},
		"directory": {"small": []byte("few bytes"), "big": big, "empty": {}},
	} {
		for _, wan := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s wan=%v", name, wan), func(t *testing.T) {
				cfg := testConfig(t.TempDir())
				cfg.WAN = wan
				w := startWorld(t, cfg)
				mounted := mountIn(t, w.Cluster, west)
				s := &shuttle{t: t, content: content, inside: name == "directory"}
				paths := [2]string{filepath.Join(mounted, string(west), "dir"), filepath.Join(mounted, string(east), "dir")}
				for i, region := range []topology.Region{west, east} {
					require.NoError(t, os.Mkdir(paths[i], 0o755))
					require.Eventually(t, func() bool {
						a, err := w.clients[west].Lookup(t.Context(), w.roots[region], "dir")
						s.dirs[i] = a.Ino
						return err == nil
					}, 30*time.Second, time.Millisecond)
				}
				shuttleRace(t, w, s, paths)
			})
		}
	}
}

func shuttleRace(t *testing.T, w *world, s *shuttle, paths [2]string) {
	at := func(n int) string { return filepath.Join(paths[n%2], s.name(n)) }
	s.build(at(0))
	third := w.clients[ireland]
	require.Eventually(t, func() bool {
		seen, err := s.look(third, s.dirs[0])
		return err == nil && seen.number == 0 && s.check(third, seen.ino) == nil
	}, 30*time.Second, time.Millisecond)

	done, ended, stable := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(ended)
		walks, stables, err := s.walk(third, done, stable)
		assert.NoError(t, err)
		t.Logf("%d walks, %d of them of one state", walks, stables)
	}()
	const pauseAfter = 16 // renames without a pause, in which a walk may see no stable state
	last := rounds(t, func(n int) {
		require.NoError(t, os.Rename(at(n), at(n+1)), "rename %d", n)
		if n%pauseAfter != 0 {
			return
		}
		select {
		case <-stable:
		case <-ended:
		case <-time.After(20 * time.Second):
			require.Fail(t, "nobody sees a state that lasts")
		}
	})
	close(done)
	<-ended

	fresh := in(t, w.Cluster, ireland)
	fresh.Observe(w.clients[west].Proofs())
	require.Eventually(t, func() bool {
		seen, err := s.look(fresh, s.dirs[last%2])
		return err == nil && seen.number == last && s.check(fresh, seen.ino) == nil
	}, 30*time.Second, time.Millisecond)
	elsewhere, err := s.look(fresh, s.dirs[(last+1)%2])
	require.NoError(t, err)
	require.Equal(t, -1, elsewhere.number)
}
