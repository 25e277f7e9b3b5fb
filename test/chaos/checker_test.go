package chaos

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCheckerSees: the checker reports nothing on an intact file system. It reports a wrong byte, a lost
// append, a lost file and a file that has come back.
func TestCheckerSees(t *testing.T) {
	for name, harm := range map[string]func(path, content string) error{
		"nothing":     func(string, string) error { return nil },
		"wrong byte":  func(path, content string) error { return os.WriteFile(path, []byte("x"+content[1:]), 0o644) },
		"lost append": func(path, content string) error { return os.Truncate(path, int64(len(content)-1)) },
		"lost file":   func(path, _ string) error { return os.Remove(path) },
		"file back": func(path, content string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), "f1"), []byte(content), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			counts := &tally{doubt: map[unix.Errno]int{}}
			w, err := newFileWorker(1, counts, filepath.Join(dir, "a"), filepath.Join(dir, "b"))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			w.run(ctx)
			require.Empty(t, counts.wrong)
			require.Positive(t, counts.done)
			w.replace("0/f0")
			w.remove("0/f1")
			w.append("0/f0")
			require.NoError(t, w.checkAll(dir, dir))
			require.Empty(t, counts.wrong)
			path := w.path("0/f0")
			content, err := read(path)
			require.NoError(t, err)
			require.NoError(t, harm(path, content))
			require.NoError(t, w.checkAll(dir, dir))
			require.Equal(t, name == "nothing", len(counts.wrong) == 0, counts.wrong)
		})
	}
}

// TestOnlyPermittedErrors: the checker reports errors other than the permitted ones of a soft mount.
func TestOnlyPermittedErrors(t *testing.T) {
	counts := &tally{doubt: map[unix.Errno]int{}}
	require.False(t, counts.outcome("x", &os.PathError{Err: unix.ETIMEDOUT}))
	require.Empty(t, counts.wrong)
	require.False(t, counts.outcome("x", &os.PathError{Err: unix.ESTALE}))
	require.Len(t, counts.wrong, 1)
}
