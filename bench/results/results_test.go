package results_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/results"
)

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, results.WriteFile(path, func(w io.Writer) error { return results.WriteJSON(w, map[string]int{"a": 1}) }))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "{\n  \"a\": 1\n}\n", string(text))
	broken := errors.New("broken")
	require.ErrorIs(t, results.WriteFile(path, func(io.Writer) error { return broken }), broken)
	require.Error(t, results.WriteFile(filepath.Join(path, "below"), nil))
}

type report struct{ err error }

func (r report) WriteJSON(w io.Writer) error  { return results.WriteJSON(w, 1) }
func (r report) WriteTable(w io.Writer) error { return r.err }

func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, results.WriteFiles(dir, results.Both("name", report{})))
	require.FileExists(t, filepath.Join(dir, "name.json"))
	require.FileExists(t, filepath.Join(dir, "name.txt"))
	broken := errors.New("broken")
	require.ErrorIs(t, results.WriteFiles(dir, results.Both("other", report{broken})), broken)
	require.FileExists(t, filepath.Join(dir, "other.json"), "one error does not stop the others")
	require.Error(t, results.WriteFiles(filepath.Join(dir, "name.txt", "below"), nil))
}
