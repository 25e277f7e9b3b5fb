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
