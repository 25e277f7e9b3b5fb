package packing

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOrder: each protocol delivers all messages in the same order everywhere, those of a sender as sent.
func TestOrder(t *testing.T) {
	for _, kind := range kinds {
		for _, burst := range []int{1, 7, 400} {
			c := Default()
			c.Rounds, c.Buffer = 3, 1<<20
			r, err := c.start(kind.name, c.Processes, burst)
			require.NoError(t, err)
			require.NoError(t, r.end())
			first := r.stations[0].delivered
			require.Len(t, first, c.Rounds*burst*c.Processes, kind.name)
			last := map[int]int{}
			for _, m := range first {
				require.Equal(t, last[m.sender], m.number, "%s: messages of process %d", kind.name, m.sender)
				last[m.sender]++
			}
			for _, s := range r.stations {
				require.Equal(t, first, s.delivered, "%s: process %d", kind.name, s.id)
			}
		}
	}
}

// TestContention: two stations lose a slot on average, many stations e-1 slots.
func TestContention(t *testing.T) {
	require.Zero(t, contention(1))
	require.Equal(t, slot, contention(2))
	require.InDelta(t, 1.718*float64(slot), float64(contention(1000)), 0.01*float64(slot))
}

// TestLoss: a receiver that is too slow loses a packet, and the burst counts as not sustained.
func TestLoss(t *testing.T) {
	c := Default()
	c.Buffer, c.ReceiveCost = 2, 20*time.Millisecond
	p, err := c.measure("dynseq", c.Processes, 10)
	require.NoError(t, err)
	require.False(t, p.Sustained)
	require.Zero(t, p.Throughput)
}

// The report is the same in each run, and has four figures.
func TestFiles(t *testing.T) {
	c := Default()
	c.Bursts = []int{1, 10}
	var tables [2]bytes.Buffer
	dir := t.TempDir()
	for i := range tables {
		r, err := Run(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, r.WriteTable(&tables[i]))
		require.NoError(t, r.WriteFiles(dir))
	}
	require.Equal(t, tables[0].String(), tables[1].String())
	for _, name := range []string{"packing.txt", "packing.json", "packing-figure-1.svg", "packing-figure-4.svg"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Positive(t, info.Size())
	}
}

// TestValidate: a wrong value is named.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no protocol \"paxos\"": func(c *Config) { c.Protocols = []string{"paxos"} },
		"bursts of 0":           func(c *Config) { c.Bursts = []int{0} },
		"1 processes":           func(c *Config) { c.Processes = 1 },
		"0 rounds":              func(c *Config) { c.Rounds = 0 },
	} {
		c := Default()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}
