package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/pause"
)

// notes are the small files of a server. Each has a copy, or can be damaged without harm.
var notes = []string{"owner", "incarnation", "numbers", "cluster.yaml", "life", "partition-*/process"}

// files are the files of the replicas of a server.
var files = []string{"partition-*/log/*.wal", "partition-*/log/MARK", "partition-*/state/*.ldb", "partition-*/state/*.log", "partition-*/state/MANIFEST-*"}

// rot inverts a bit in one of the notes and in one of the files of a server while the server is down. Its end
// waits until the server has repaired or replaced the damaged parts: the next fault may need them.
func (a *adversary) rot() fault {
	s := a.server()
	var rotten []string
	return fault{
		name:    "rot " + s.Name,
		settles: true,
		begin: func(context.Context) error {
			s.Kill()
			for _, patterns := range [][]string{notes, files} {
				path, err := a.flip(a.cluster.DataDir(s.Name), patterns)
				if err != nil {
					return err
				}
				rotten = append(rotten, path)
			}
			return nil
		},
		end: func(ctx context.Context) error {
			err := s.Start(ctx)
			if err == nil {
				err = a.settled(ctx)
			}
			if err != nil {
				err = fmt.Errorf("%v: %w", rotten, err)
			}
			return err
		},
	}
}

// flip inverts a bit of a file that matches one of the patterns. It skips empty files.
func (a *adversary) flip(dir string, patterns []string) (path string, err error) {
	for _, i := range a.rng.Perm(len(patterns)) {
		paths, err := filepath.Glob(filepath.Join(dir, patterns[i]))
		if err != nil {
			return "", err
		}
		for _, j := range a.rng.Perm(len(paths)) {
			b, err := os.ReadFile(paths[j])
			if err != nil {
				return "", err
			}
			if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
				b[a.rng.IntN(n)] ^= 1 << a.rng.IntN(8)
				return paths[j], os.WriteFile(paths[j], b, 0o600)
			}
		}
	}
	return "", fmt.Errorf("%s has nothing to damage", dir)
}

// rollBack restores an earlier state of a server's replicas, like a snapshot of their disk.
func (a *adversary) rollBack() fault {
	s := a.server()
	dir := a.cluster.DataDir(s.Name)
	var saved string
	return fault{
		name:    "roll back " + s.Name,
		settles: true,
		begin: func(ctx context.Context) (err error) {
			s.Kill()
			if saved, err = os.MkdirTemp("", "chaos-saved"); err != nil {
				return err
			}
			if err := copyAll(ctx, dir, saved); err != nil {
				return err
			}
			return s.Start(ctx)
		},
		end: func(ctx context.Context) error {
			defer os.RemoveAll(saved)
			s.Kill()
			if err := replaceBy(ctx, saved, dir); err != nil {
				return err
			}
			if err := s.Start(ctx); err != nil {
				return err
			}
			return a.settled(ctx)
		},
	}
}

// replaceBy replaces the snapshot of a directory by another one.
func replaceBy(ctx context.Context, from, dir string) error {
	now, err := snapshot(dir)
	if err != nil {
		return err
	}
	for _, path := range now {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return copyAll(ctx, from, dir)
}

// copied starts a server on a copy of the directory of another server, which must be refused, and then on its
// own directory.
func (a *adversary) copied() fault {
	s, of := a.server(), a.server()
	for of == s {
		of = a.server()
	}
	dir := a.cluster.DataDir(s.Name)
	var saved string
	return fault{
		name:    fmt.Sprintf("directory of %s at %s", of.Name, s.Name),
		settles: true,
		begin: func(ctx context.Context) (err error) {
			s.Kill()
			if saved, err = os.MkdirTemp("", "chaos-saved"); err != nil {
				return err
			}
			if err := copyAll(ctx, dir, saved); err != nil {
				return err
			}
			of.Signal(unix.SIGSTOP)
			err = replaceBy(ctx, a.cluster.DataDir(of.Name), dir)
			of.Signal(unix.SIGCONT)
			if err != nil {
				return err
			}
			if err := s.Start(ctx); err == nil || !strings.Contains(err.Error(), of.Name) {
				return fmt.Errorf("%s starts on the directory of %s: %v", s.Name, of.Name, err)
			}
			return nil
		},
		end: func(ctx context.Context) error {
			defer os.RemoveAll(saved)
			s.Kill()
			if err := replaceBy(ctx, saved, dir); err != nil {
				return err
			}
			if err := s.Start(ctx); err != nil {
				return err
			}
			return a.settled(ctx)
		},
	}
}

// snapshot returns the content of a data directory except the blocks: the next fault could destroy the other
// copies of new blocks before they are repaired.
func snapshot(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != "blocks" && e.Name() != "members.json" && e.Name() != "members.json.copy" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// copyAll copies a snapshot.
func copyAll(ctx context.Context, from, to string) error {
	paths, err := snapshot(from)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "cp", append(append([]string{"-a"}, paths...), to)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cp: %w: %s", err, out)
	}
	return err
}

// settled waits until the status has no problems, and every replica takes part.
func (a *adversary) settled(ctx context.Context) error {
	for began := time.Now(); ; {
		out, err := a.cluster.Admin(ctx, "status", "--settled")
		if err == nil {
			return nil
		}
		if time.Since(began) > 3*time.Minute {
			return fmt.Errorf("%w: %s", err, out)
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
