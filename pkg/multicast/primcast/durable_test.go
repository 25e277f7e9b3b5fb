package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func durableMsg(seq uint64, dest ...multicast.GroupID) *multicast.Message {
	m := msg(seq, dest...)
	m.Durable = true
	return m
}

// TestADurableMessageIsSyncedBeforeItIsAcknowledged: the primary and a follower sync the step in which the
// message joins T, and only that one.
func TestADurableMessageIsSyncedBeforeItIsAcknowledged(t *testing.T) {
	for _, self := range []multicast.ProcessID{1, 2} {
		c := newProc(t, self)
		plain, durable, last := msg(1, 1), durableMsg(2, 1), msg(3, 1)
		var outs []*multicast.Output
		for i, m := range []*multicast.Message{plain, durable, last} {
			if i > 0 {
				outs = append(outs, c.hear(5, startOf(m, m.ID.Seq-1)))
			} else {
				outs = append(outs, c.hear(5, startOf(m, 0)))
			}
			if self != 1 {
				outs[i] = c.hear(1, entryOf(epochG, uint64(i+1), multicast.Timestamp(i+1), m))
			}
		}
		for i, out := range outs {
			require.NotEmpty(t, out.Records)
			require.Equal(t, i == 1, out.Sync, "process %d, message %d", self, i+1)
		}
		again := c.restart(nil)
		require.True(t, again.messages[durable.ID].Durable, "its record tells")
		require.False(t, again.messages[last.ID].Durable)
	}
}

// TestAnEpochIsSynced: a promise, and the T of a new epoch, are synced before any message depends on them.
func TestAnEpochIsSynced(t *testing.T) {
	c := newProc(t, 3)
	require.True(t, c.hear(2, newEpochOf(second)).Sync)
	require.True(t, c.hear(2, newStateOf(second, 0, 0, 1)).Sync)
	require.Equal(t, second, c.current)
}
