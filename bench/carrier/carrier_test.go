package carrier

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/virtual"
)

// short measures one experiment in a few virtual seconds.
func short(t *testing.T, experiment string) *Report {
	c := Default()
	c.Quick()
	c.Experiments, c.Objects = []string{experiment}, []int{4}
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	return r
}

// A command takes one round trip from either party, and two from a region that is no party.
func TestLatency(t *testing.T) {
	r := short(t, "latency")
	require.Len(t, r.Latency, 3*9)
	for _, l := range r.Latency {
		most := 1.1
		if l.Client != l.Parties[0] {
			most = 2
		}
		assert.LessOrEqual(t, l.Trips99, most, "%+v", l)
		assert.Greater(t, l.Trips50, 0.5, "%+v", l)
	}
}

// One message carries a command; the parties order RELAY, DECIDE and OUTCOME once each, the coordinator also
// FORGET.
func TestCost(t *testing.T) {
	r := short(t, "cost")
	require.Len(t, r.Costs, 3*7)
	for _, c := range r.Costs {
		parties := float64(len(c.Parties))
		assert.InDelta(t, 1, c.Messages, 1e-9, "%+v", c)
		assert.InDelta(t, 2*parties+1, c.Entries, 1e-9, "%+v", c)
		assert.InDelta(t, parties, c.Relays, 1e-9, "%+v", c)
		assert.Greater(t, c.Frames, 6*parties, "%+v", c)
		assert.Greater(t, c.Wide, 0.0)
		assert.Less(t, c.Wide, c.Frames)
	}
}

// Conflicting commands all commit, by repetition.
func TestContention(t *testing.T) {
	for _, c := range short(t, "contention").Contention {
		assert.Zero(t, c.Failed, "%+v", c)
		assert.Greater(t, c.Rate, 20.0, "%+v", c)
		assert.Greater(t, c.Attempts, 1.05, "%+v: no conflict was met", c)
		assert.Less(t, c.Attempts, 4.0, "%+v", c)
	}
}

// In a cut, files of commands that the healthy side coordinates are free within five seconds, every caller is
// answered, and no local operation is delayed. Of the commands between connected regions only those in one
// order stand still. Run verifies the answers against the names.
func TestCut(t *testing.T) {
	r := short(t, "cut")
	require.Len(t, r.Held, 3*2)
	for _, h := range r.Held {
		if h.Coordinator == "us-west-2" {
			assert.Positive(t, h.Held, "%+v: no command was under way", h)
			assert.LessOrEqual(t, h.Longest, 5.0, "%+v", h)
		} else {
			assert.Positive(t, h.ToTheEnd, "%+v: a vote is final", h)
		}
	}
	for _, c := range r.Callers {
		assert.Zero(t, c.Unknown+c.Refused, "%+v", c)
		assert.Positive(t, c.Done, "%+v", c)
		assert.Positive(t, c.TimedOut, "%+v", c)
		assert.InDelta(t, r.Setup.Patience, c.Longest, 0.1, "%+v", c)
	}
	for _, l := range r.Local {
		assert.Greater(t, l.Operations, 500)
		assert.Zero(t, l.Delayed, "%+v", l)
	}
	require.Len(t, r.Classes, 3*5)
	for _, c := range r.Classes {
		if c.Severed || c.Carrier == "one-order" {
			assert.Greater(t, c.Stood, r.Setup.Cut-3, "%+v", c)
		} else {
			assert.Less(t, c.Stood, 0.3, "%+v", c)
		}
		assert.Positive(t, c.Rates[len(c.Rates)-2], "%+v: the class goes on after the cut", c)
	}
}

func TestEqualSeedsGiveEqualFigures(t *testing.T) {
	c := Default()
	c.Quick()
	run := func(seed uint64) Contention {
		c.Seed = seed
		row, err := c.contend(&c.Carriers[2], 8, 4)
		require.NoError(t, err)
		return row
	}
	first, second := run(1), run(1)
	require.Equal(t, first, second)
	require.NotEqual(t, run(1), run(2))
}

// Frames on their way when the cut begins are lost, and so are frames that are sent during the cut. Then
// links start anew.
func TestCutLosesFrames(t *testing.T) {
	c := Default()
	k, err := virtual.New(virtual.Config{Carrier: &c.Carriers[0], Regions: c.Regions, Seed: 1})
	require.NoError(t, err)
	x := k.NewClient(k.Regions[0])
	require.NoError(t, x.Open(near))
	file, err := x.File(near, "file")
	require.NoError(t, err)
	k.CutOff(k.Regions[2])
	var got *virtual.Answer
	x.Update(time.Second, virtual.Rename(file, "file", near, off), []uint16{near, off}, func(a virtual.Answer) { got = &a })
	k.Pass(900 * time.Millisecond)
	require.Nil(t, got)
	k.Mend()
	k.Pass(30 * time.Second)
	require.NotNil(t, got)
	require.NoError(t, k.Verify())
}

// Two shards of a region: with RDMA, Heron is ahead of one-sided votes, and these of frames. On streams an
// operation costs as much as a frame, and Heron's order of all commands stands still during remote reads: the
// commit has the higher throughput.
func TestShards(t *testing.T) {
	c := Default()
	c.Quick()
	c.Experiments, c.ShardWindow = []string{"shards"}, 40*time.Millisecond
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, r.Shards, 3*2*4)
	for _, operation := range []string{"link", "rename"} {
		of := func(medium int, way string) Shard { return r.Of(Media()[medium], operation, way) }
		const rdma, datacenters = 0, 2
		assert.Less(t, 1.5*of(rdma, ByHeron).P50, of(rdma, ByWrites).P50)
		assert.Less(t, 1.5*of(rdma, ByWrites).P50, of(rdma, ByFrames).P50)
		assert.Greater(t, of(rdma, ByHeron).Rate, 1.5*of(rdma, ByFrames).Rate)
		assert.Less(t, of(datacenters, ByFrames).P50, of(datacenters, ByHeron).P50)
		assert.Greater(t, of(datacenters, ByFrames).Rate, 2*of(datacenters, ByHeron).Rate)
		for i := range Media() {
			assert.Zero(t, of(i, ByHeron).Frames)
			assert.Zero(t, of(i, ByFrames).Ops)
			assert.Greater(t, of(i, ByHeron).Reads, 1.0)
		}
	}
}

// Equal seeds give equal figures with one-sided memory, too.
func TestShardsRepeat(t *testing.T) {
	c := Default()
	c.Quick()
	c.Samples, c.ShardWindow = 3, 10*time.Millisecond
	run := func() (s Shard) {
		s = Shard{Way: ByHeron, Operation: "rename"}
		m := &media()[0]
		require.NoError(t, c.alone(m, &s))
		require.NoError(t, c.crowd(m, &s))
		return s
	}
	first := run()
	require.Positive(t, first.Rate)
	require.Equal(t, first, run())
}
