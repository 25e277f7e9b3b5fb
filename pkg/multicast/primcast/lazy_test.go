package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestFollowersAcknowledgeToEachOtherLater: with the primary, each follower of three members is a quorum. The
// acknowledgement between them comes with other packets, or a while later.
func TestFollowersAcknowledgeToEachOtherLater(t *testing.T) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	out := c.hear(1, entryOf(epochG, 1, 1, msg(1, 1)), ackOf(epochG, 1, 1))
	require.Equal(t, ackOf(epochG, 1, 1), c.said(out, 1, kindAck))
	require.Empty(t, said(t, out, 3, kindAck))
	require.Equal(t, []uint64{1}, delivered(c.loopback(out)), "without an acknowledgement of 3")
	require.NotZero(t, out.Wake)
	require.LessOrEqual(t, out.Wake, DefaultFetchAfter/laziness)

	own := multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: 1}, Dest: []multicast.GroupID{1}}
	require.Equal(t, ackOf(epochG, 1, 1), c.said(c.cast(&own), 3, kindAck), "with a START")
	require.Empty(t, said(t, c.after(DefaultFetchAfter), 3, kindAck), "3 has it")

	out = c.hear(1, entryOf(epochG, 2, 2, &own), ackOf(epochG, 2, 2))
	require.Empty(t, said(t, out, 3, kindAck))
	require.Equal(t, []uint64{1}, delivered(c.loopback(out)), "2 waits for nothing")
	require.Empty(t, said(t, c.after(DefaultFetchAfter/laziness-time.Millisecond), 3, kindAck))
	require.Equal(t, ackOf(epochG, 2, 2), c.said(c.after(time.Millisecond), 3, kindAck), "at last alone")
	require.Empty(t, said(t, c.after(DefaultFetchAfter), 3, kindAck), "once")
}

// TestFollowersOfFiveAcknowledgeAtOnce: the primary and one follower are no quorum of five members.
func TestFollowersOfFiveAcknowledgeAtOnce(t *testing.T) {
	c := newProc(t, 2, func(cfg *Config) {
		cfg.Groups = []multicast.Group{{ID: 1, Members: []multicast.ProcessID{1, 2, 3, 4, 5}}}
	})
	c.hear(5, startOf(msg(1, 1), 0))
	out := c.hear(1, entryOf(epochG, 1, 1, msg(1, 1)), ackOf(epochG, 1, 1))
	for p := multicast.ProcessID(1); p <= 5; p++ {
		require.Equal(t, ackOf(epochG, 1, 1), c.said(out, p, kindAck), "process %d", p)
	}
}

// TestLostEntriesAreLearnedOfFromAFollower: the entries of the primary do not reach process 2, which waits
// for nothing. The late acknowledgement of 3 shows them.
func TestLostEntriesAreLearnedOfFromAFollower(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.lose = func(from, to multicast.ProcessID, k kind) bool { return to == 2 && (from == 1 || k == kindStart) }
	c.cast(msg(1, 1))
	c.run(4 * tick)
	c.has([]uint64{1}, 1, 3)
	c.run(20 * tick)
	require.EqualValues(t, 1, c.proc(2).Stats().Gaps)
	require.EqualValues(t, 1, c.proc(2).known())
}
