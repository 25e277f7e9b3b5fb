package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/server"
)

// A replica without a vote, because it has lost power, does not count as a remaining one.
func TestAmnesiacsDoNotStay(t *testing.T) {
	answers := []Answer{
		{Status: ServerStatus{Replicas: []ReplicaStatus{{Process: 1, Seated: true}, {Process: 2}}}},
		{Status: ServerStatus{
			Replicas: []ReplicaStatus{{Process: 3, Seated: true}, {Process: 4, Seated: true}},
			Stopped:  []StoppedReplica{{Process: 3, State: string(server.StateAmnesiac)}, {Process: 4, State: string(server.StateCatchingUp)}},
		}},
	}
	require.Equal(t, map[uint32]bool{1: true, 2: false, 3: false, 4: true}, takingPart(answers))
	require.Equal(t, map[uint32]bool{1: true, 2: false, 3: true, 4: true}, isSeated(answers), "if a loss is accepted")
}
