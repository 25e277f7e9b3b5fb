package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// asks counts the requests of a process for entries of T, by their receivers.
func (c *cluster) asks(who multicast.ProcessID) map[multicast.ProcessID]int {
	asked := map[multicast.ProcessID]int{}
	c.heard = func(from, to multicast.ProcessID, p packet) {
		if from == who && p.kind == kindFetchLog {
			asked[to]++
		}
	}
	return asked
}

// TestGapIsFilled: entries of a primary to process 2 are lost; the ACK after them shows it, and 2 requests
// them from the primary.
func TestGapIsFilled(t *testing.T) {
	for _, primary := range []multicast.ProcessID{1, 4} {
		c := newCluster(t)
		c.run(5 * tick)
		asked := c.asks(2)
		losing := true
		c.lose = func(from, to multicast.ProcessID, k kind) bool {
			return losing && from == primary && to == 2 && (k == kindEntry || k == kindAck)
		}
		c.cast(msg(1, both...), msg(2, both...))
		c.run(5 * tick)
		losing = false
		c.cast(msg(3, both...))
		c.run(10 * tick)
		c.has([]uint64{1, 2, 3}, 1, 2, 3, 4, 5, 6)
		require.Positive(t, asked[primary])
		require.Equal(t, epochG, c.proc(2).Stats().Current)
	}
}

// TestGapOfADeadPrimaryIsFilledByOthers: 4 died before its entry reached 2, and from 5 no entry arrives.
// After FetchAfter the members of h are asked in turn, and 6 has it.
func TestGapOfADeadPrimaryIsFilledByOthers(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.SuspectAfter = time.Hour })
	c.run(5 * tick)
	asked := c.asks(2)
	c.lose = func(from, to multicast.ProcessID, k kind) bool {
		return to == 2 && (from == 4 || from == 5 && k == kindEntry)
	}
	c.cast(msg(1, both...))
	c.run(5 * tick)
	c.has(nil, 2)
	c.down[4] = true
	c.run(20 * tick)
	c.has([]uint64{1}, 2, 3)
	require.Positive(t, asked[6])
}

// TestGapOfTheOwnDeadPrimaryIsFilledByOthers: 3 has a proposal of 1 in T, and 2 has not.
func TestGapOfTheOwnDeadPrimaryIsFilledByOthers(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.SuspectAfter = time.Hour })
	c.run(5 * tick)
	asked := c.asks(2)
	c.lose = func(from, to multicast.ProcessID, _ kind) bool { return from == 1 && to == 2 }
	c.cast(msg(1, 1), msg(2, 1))
	c.run(3 * tick)
	require.Zero(t, c.proc(2).t.last())
	c.down[1] = true
	c.run(20 * tick)
	require.EqualValues(t, 2, c.proc(2).t.last())
	require.Equal(t, map[multicast.ProcessID]int{3: 1}, asked)
}

// large returns messages with contents that make more than two chunks of a stream.
func large(n uint64) []*multicast.Message {
	messages := make([]*multicast.Message, n)
	for i := range messages {
		messages[i] = msg(uint64(i)+1, 1)
		messages[i].Payload = make([]byte, 2*DefaultMaxFrame/n+DefaultMaxFrame/16)
	}
	return messages
}

func seqsOf(messages []*multicast.Message) (seqs []uint64) {
	for _, m := range messages {
		seqs = append(seqs, m.ID.Seq)
	}
	return seqs
}

// TestLargeGapComesInChunks: the answer to FETCH-LOG is cut, and the rest is requested.
func TestLargeGapComesInChunks(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	cut := true
	c.lose = func(_, to multicast.ProcessID, _ kind) bool { return cut && to == 3 }
	messages := large(16)
	c.cast(messages[:8]...)
	c.cast(messages[8:]...)
	c.run(10 * tick)
	c.has(seqsOf(messages), 1, 2)
	asked := c.asks(3)
	cut = false
	c.cast(msg(17, 1))
	c.run(50 * tick)
	c.has(append(seqsOf(messages), 17), 1, 2, 3)
	require.GreaterOrEqual(t, asked[1], 3)
}

// TestLargeNewStateComesInChunks: 3 lacks most of T' when its primary dies.
func TestLargeNewStateComesInChunks(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.FetchAfter = time.Hour }) // followers do not help each other
	c.run(5 * tick)
	cut := true
	c.lose = func(from, to multicast.ProcessID, _ kind) bool { return cut && to == 3 }
	messages := large(16)
	c.cast(messages...)
	c.run(10 * tick)
	c.has(seqsOf(messages), 1, 2)
	asked := c.asks(3)
	cut, c.down[1], c.maxFrame = false, true, 0
	c.cast(msg(17, 1))
	c.run(5 * time.Second)
	c.has(append(seqsOf(messages), 17), 2, 3)
	require.Equal(t, second, c.proc(3).Stats().Current, "one epoch is enough")
	require.GreaterOrEqual(t, asked[2], 2)
	require.Less(t, c.maxFrame, DefaultMaxFrame+DefaultMaxFrame/4)
}

// TestLargeStateComesToACandidateInChunks: T_max of line 67 is elsewhere, and large.
func TestLargeStateComesToACandidateInChunks(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.FetchAfter = time.Hour }) // followers do not help each other
	c.run(5 * tick)
	cut := true
	c.lose = func(from, to multicast.ProcessID, _ kind) bool { return cut && to == 2 }
	messages := large(16)
	c.cast(messages...)
	c.run(10 * tick)
	c.has(seqsOf(messages), 1, 3)
	cut, c.down[1], c.maxFrame = false, true, 0
	c.cast(msg(17, 1))
	c.run(5 * time.Second)
	c.has(append(seqsOf(messages), 17), 2, 3)
	require.Equal(t, second, c.proc(3).Stats().Current, "one epoch is enough")
	require.Less(t, c.maxFrame, DefaultMaxFrame+DefaultMaxFrame/4)
}

// TestContentOfWhatTheOwnGroupLost: the primary proposed the message, and a new epoch does not have it; the
// other group does.
func TestContentOfWhatTheOwnGroupLost(t *testing.T) {
	for name, decided := range map[string]bool{"known": false, "decided": true} {
		c := newProc(t, 2)
		m := msg(1, both...)
		c.hear(4, entryOf(epochH, 1, 7, m))
		if decided {
			c.hear(4, ackOf(epochH, 1, 7))
			c.hear(6, ackOf(epochH, 1, 7))
		}
		c.hear(1, entryOf(epochG, 1, 5, m))
		second := secondBy(3)
		c.hear(3, newEpochOf(second))
		c.hear(3, newStateOf(second, 0, 0, 9))
		asked := map[multicast.ProcessID]int{}
		for range 6 {
			for _, f := range c.after(DefaultFetchAfter).Frames {
				packets, err := decodeFrame(f.Data, nil)
				require.NoError(t, err)
				for _, p := range packets {
					if p.kind == kindFetch {
						asked[f.Peer]++
					}
				}
			}
		}
		require.Equal(t, map[multicast.ProcessID]int{4: 2, 5: 2, 6: 2}, asked, name)
	}
}
