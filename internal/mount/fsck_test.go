package mount

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/posix"
)

// For any number of findings the answer fits an attribute, and contains the number of omitted ones.
func TestFittingReport(t *testing.T) {
	var r fsck.Report
	for range 10_000 {
		r.Problems = append(r.Problems, fsck.Problem{Where: "partition 1", What: strings.Repeat("x", 100)})
	}
	value, err := fitting(&r)
	require.NoError(t, err)
	require.LessOrEqual(t, len(value), posix.MaxXattr)
	var read fsck.Report
	require.NoError(t, json.Unmarshal(value, &read))
	require.Greater(t, len(read.Problems), 100)
	require.Equal(t, 10_000, len(read.Problems)+read.LeftOut)
}
