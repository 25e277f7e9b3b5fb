package daemon

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// fixedMarks are marks of all processes, or of none.
type fixedMarks bool

func (fixedMarks) Mark(context.Context, string) error             { return nil }
func (m fixedMarks) Marked(context.Context, string) (bool, error) { return bool(m), nil }

// A first member starts with the state of the backup that the cluster was restored from, or with no state if
// the cluster was not restored. A member with a lost disk is replaced, and starts without a state.
func TestOnlyRestoredServersStart(t *testing.T) {
	spec := topology.DefaultSpec()
	cluster, err := spec.Plan()
	require.NoError(t, err)
	for _, c := range []struct {
		cluster, server string
		spoke           bool
		says            string
	}{
		{"", "", false, ""},
		{"b1", "b1", false, ""},
		{"b1", "", false, "the cluster was restored from backup b1, and"},
		{"b1", "b0", false, "the cluster was restored from backup b1, and"},
		{"", "b1", false, "the cluster was made without a backup"},
		{"b1", "", true, ""},
		{"b1", RestoreIncomplete, false, "remove the directory and restore again"},
		{"", RestoreIncomplete, false, "remove the directory and restore again"},
	} {
		dir := t.TempDir()
		if c.server != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, RestoredFile), []byte(c.server+"\n"), 0o600))
		}
		d := &description{spec: spec, cluster: cluster}
		d.spec.Restored = c.cluster
		err := checkRestored(t.Context(), dir, cluster.Servers[0].Name, d, fixedMarks(c.spoke))
		if c.says == "" {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, c.says, "%+v", c)
		}
	}
}
