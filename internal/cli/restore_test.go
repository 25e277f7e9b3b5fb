package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Blocks are restored only from the backup that the cluster was restored from.
func TestBlocksOfTheRestoredBackup(t *testing.T) {
	for _, asked := range []string{"", "b1"} {
		got, err := restoredFrom("b1", asked)
		require.NoError(t, err)
		require.Equal(t, "b1", got)
	}
	_, err := restoredFrom("b1", "b2")
	require.ErrorContains(t, err, "restored from backup b1")
	_, err = restoredFrom("", "b2")
	require.ErrorContains(t, err, "was not restored")
}
