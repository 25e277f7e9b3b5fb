package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// TestGrowthWaits: the next step of a new partition waits for all servers (D8), and names those that it waits
// for.
func TestGrowthWaits(t *testing.T) {
	answer := func(name string, applied uint64, err string) Answer {
		return Answer{Server: topology.Server{Name: name}, Status: ServerStatus{Version: 9, Applied: applied}, Error: err}
	}
	for want, answers := range map[string][]Answer{
		"":                  {answer("a", 7, ""), answer("b", 8, "")},
		"b does not answer": {answer("a", 7, ""), answer("b", 0, "refused")},
		"b, c has not applied the last change of the cluster yet": {answer("a", 7, ""), answer("b", 6, ""), answer("c", 5, "")},
		"a runs an older version of globalfs":                     {answer("a", 0, ""), answer("b", 7, "")},
	} {
		require.Equal(t, want, notApplied(answers, 7))
	}
}

// TestGrowthIsShown: the status shows a partition that is being added, with the condition for which it waits.
func TestGrowthIsShown(t *testing.T) {
	spec := topology.DefaultSpec()
	plan, err := spec.Plan()
	require.NoError(t, err)
	_, err = spec.AddPartition(plan, "us-east-1", nil)
	require.NoError(t, err)
	plan, err = spec.Plan()
	require.NoError(t, err)
	growth := &Growth{Partition: 4, State: string(topology.PartitionPlanned), Waits: "x does not answer"}
	h := Judge("test", []Answer{{Status: ServerStatus{Growth: growth}}}, plan)
	require.Contains(t, h.Problems, Problem{Level: LevelInfo, Code: PartitionAdding, Text: "partition 4 (/us-east-1#2) is being added: x does not answer"})
	require.False(t, h.Settled())
}
