package tram

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// written puts an entry into the image of a log.
func written(image []byte, c *Core, n uint64, ts uint32, e entry) {
	e.encode(n)
	copy(image[headerSize+c.cfg.place(n):], stamped(e.slot, ts))
}

// standing makes a candidate that has the right of all members, with empty images of their logs.
func standing(t *testing.T, images int) *Core {
	c := newTestCore(t, 40)
	step(c, Input{})
	c.begin(c.now, &Output{})
	c.stand()
	c.promised = c.ts
	for _, m := range c.members[:images] {
		c.peers[m.id].received.promised = c.ts
		m.image = make([]byte, headerSize+c.cfg.Slots*c.cfg.SlotSize)
	}
	return c
}

func from(client multicast.ProcessID, index, seq uint64) entry {
	return entry{from: client, index: index, message: message(client, seq, 4)}
}

// TestCatchUp covers Algorithm 4, with the check of timestamps. The entry with the highest timestamp counts
// (G4).
func TestCatchUp(t *testing.T) {
	c := standing(t, 2)
	written(c.members[0].image, c, 1, timestamp(1, 0), from(30, 1, 5))
	written(c.members[1].image, c, 1, timestamp(3, 1), from(31, 1, 6))
	written(c.members[0].image, c, 2, timestamp(2, 2), from(30, 1, 5))
	c.catchUp()
	require.True(t, c.Leads())
	require.Equal(t, 2, c.Stats().Adopted)
	require.Equal(t, multicast.ProcessID(31), c.ledger.at(1).from)
	require.Equal(t, multicast.ProcessID(30), c.ledger.at(2).from)
}

// TestCatchUpCuts: an entry of another prefix, and an empty slot, end the log (G4). What is behind is not
// adopted: its message would be in the log twice.
func TestCatchUpCuts(t *testing.T) {
	c := standing(t, 2)
	written(c.members[0].image, c, 1, timestamp(2, 1), from(30, 1, 5))
	written(c.members[1].image, c, 2, timestamp(1, 0), from(30, 1, 5))
	written(c.members[1].image, c, 3, timestamp(1, 0), from(31, 1, 6))
	c.catchUp()
	require.True(t, c.Leads())
	require.Equal(t, uint64(1), c.ledger.last())
	require.Equal(t, 1, c.Stats().Dropped)

	c = standing(t, 2)
	written(c.members[0].image, c, 2, timestamp(2, 1), from(30, 1, 5))
	c.catchUp()
	require.Zero(t, c.ledger.last())
}

// TestCatchUpNeedsWhatIsApplied: a candidate does not lead if a member has applied entries that no log holds.
func TestCatchUpNeedsWhatIsApplied(t *testing.T) {
	c := standing(t, 2)
	written(c.members[0].image, c, 1, timestamp(2, 1), from(30, 1, 5))
	c.peers[c.members[1].id].received.applied = 2
	c.catchUp()
	require.False(t, c.Leads())
	require.Zero(t, c.ledger.last(), "a follower keeps applied entries only")
}

// TestCommitWord covers nothing that was not posted to the member (G5).
func TestCommitWord(t *testing.T) {
	c := newTestCore(t, 40)
	step(c, Input{})
	for i := range uint64(5) {
		e := from(30, i+1, i+1)
		e.encode(i + 1)
		c.ledger.push(&e)
	}
	c.decided = 5
	c.begin(c.now, &Output{})
	m := c.members[1]
	m.posted = 3
	c.writeHeader(m)
	require.Len(t, c.out.Ops, 1)
	require.Equal(t, uint64(3), le.Uint64(c.out.Ops[0].Data))
}

// TestAskWaits: a member is asked when nothing of an earlier term can land in its log any more (G3).
func TestAskWaits(t *testing.T) {
	c := newTestCore(t, 40)
	step(c, Input{})
	c.begin(c.now, &Output{})
	m := c.members[1]
	m.lane.Post(fabric.Op{}, 1, c.ts)
	write := c.out.Ops[0]
	c.stand()
	c.campaign()
	require.Zero(t, m.requested)
	require.Equal(t, c.ts, c.members[2].requested)
	completion := fabric.Completion{Token: write.Token, Peer: write.Peer, Region: write.Region, Status: fabric.Lost}
	c.lanes.Complete([]fabric.Completion{completion})
	c.campaign()
	require.Zero(t, m.requested, "it may still land")
	c.begin(c.now+c.cfg.RetryAfter, &Output{})
	c.campaign()
	require.Zero(t, m.requested)
	reset := c.out.Ops[0]
	require.Equal(t, fabric.Reset, reset.Kind)
	c.lanes.Complete([]fabric.Completion{{Token: reset.Token, Kind: fabric.Reset, Peer: reset.Peer, Region: reset.Region}})
	c.campaign()
	require.Equal(t, c.ts, m.requested)
}
