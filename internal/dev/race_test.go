package dev

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raceDuration is the time of each race. A soak: `go test ./internal/dev -run Race -race.duration=5m`.
var raceDuration = flag.Duration("race.duration", 3*time.Second, "of each race between two mounts")

// together runs f and g at the same time.
func together(f, g func() error) (ferr, gerr error) {
	var both sync.WaitGroup
	both.Go(func() { ferr = f() })
	both.Go(func() { gerr = g() })
	both.Wait()
	return ferr, gerr
}

// allowed fails the test if err is neither nil nor one of the errnos.
func allowed(t *testing.T, err error, errnos ...syscall.Errno) {
	t.Helper()
	if err == nil || slices.ContainsFunc(errnos, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		return
	}
	require.NoError(t, err, "not an errno that POSIX allows here")
}

func create(path, content string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}

// rounds repeats round for raceDuration, with warm kernel caches on both mounts.
func rounds(t *testing.T, round func(n int)) int {
	n := 0
	for end := time.Now().Add(*raceDuration); time.Now().Before(end); n++ {
		round(n)
	}
	require.Positive(t, n)
	t.Logf("%d rounds", n)
	return n
}

// Create in a directory that another mount removes: one of the two succeeds
// (juicefs#6597: both did, and the file was lost).
func TestRaceCreateAgainstRmdir(t *testing.T) {
	a, b, fresh := raceMounts(t)
	var kept, removed []string
	rounds(t, func(n int) {
		name := fmt.Sprintf("rmdir-%d", n)
		require.NoError(t, os.Mkdir(filepath.Join(a, name), 0o755))
		awaitVisible(t, filepath.Join(b, name))
		cerr, rerr := together(
			func() error { return create(filepath.Join(a, name, "f"), name) },
			func() error { return syscall.Rmdir(filepath.Join(b, name)) })
		allowed(t, cerr, syscall.ENOENT)
		allowed(t, rerr, syscall.ENOTEMPTY)
		require.True(t, (cerr == nil) != (rerr == nil), "round %d: create: %v, rmdir: %v", n, cerr, rerr)
		if cerr == nil {
			kept = append(kept, name)
		} else {
			removed = append(removed, name)
		}
	})
	t.Logf("create won %d, rmdir won %d", len(kept), len(removed))
	root := fresh()
	for _, name := range kept {
		content, err := os.ReadFile(filepath.Join(root, name, "f"))
		require.NoError(t, err)
		require.Equal(t, name, string(content))
	}
	for _, name := range removed {
		require.NoFileExists(t, filepath.Join(root, name, "f"))
		require.NoDirExists(t, filepath.Join(root, name))
	}
}

// Create in a directory that another mount renames: the file is in the renamed directory.
func TestRaceCreateAgainstRename(t *testing.T) {
	a, b, fresh := raceMounts(t)
	var created []bool
	rounds(t, func(n int) {
		name, moved := fmt.Sprintf("from-%d", n), fmt.Sprintf("to-%d", n)
		require.NoError(t, os.Mkdir(filepath.Join(a, name), 0o755))
		awaitVisible(t, filepath.Join(b, name))
		cerr, rerr := together(
			func() error { return create(filepath.Join(a, name, "f"), name) },
			func() error { return os.Rename(filepath.Join(b, name), filepath.Join(b, moved)) })
		allowed(t, cerr, syscall.ENOENT)
		require.NoError(t, rerr)
		created = append(created, cerr == nil)
	})
	root := fresh()
	for n, ok := range created {
		require.NoDirExists(t, filepath.Join(root, fmt.Sprintf("from-%d", n)))
		content, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("to-%d", n), "f"))
		if ok {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("from-%d", n), string(content))
		} else {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
}

// Open a file that another mount unlinks: all of its bytes, or ENOENT.
func TestRaceOpenAgainstUnlink(t *testing.T) {
	a, b, _ := raceMounts(t)
	content := make([]byte, 300<<10) // above the inline limit
	for i := range content {
		content[i] = byte(i * 7 / 3)
	}
	opened := 0
	rounds(t, func(n int) {
		name := fmt.Sprintf("unlink-%d", n)
		require.NoError(t, os.WriteFile(filepath.Join(a, name), content, 0o644))
		// After one complete read, no later read may return less.
		require.Eventually(t, func() bool { return readAll(filepath.Join(b, name), content) == nil }, 30*time.Second, time.Millisecond)
		oerr, uerr := together(
			func() error { return readAll(filepath.Join(b, name), content) },
			func() error { return os.Remove(filepath.Join(a, name)) })
		allowed(t, oerr, syscall.ENOENT)
		require.NoError(t, uerr)
		if oerr == nil {
			opened++
		}
	})
	t.Logf("open won %d times", opened)
}

// awaitVisible waits until a mount shows a file that another mount has made, which warms its kernel cache.
// The file is visible after the mount's replica has delivered it.
func awaitVisible(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, 30*time.Second, time.Millisecond)
}

func readAll(path string, want []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err == nil && !slices.Equal(got, want) {
		return fmt.Errorf("%s: %d bytes, not those written", path, len(got))
	}
	return err
}
