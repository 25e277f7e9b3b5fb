package hops

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/memory"
)

// peerVariable makes this program the peer of a measurement.
const peerVariable = "HOPS_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) == "" {
		os.Exit(m.Run())
	}
	var c memory.Config
	flags := flag.NewFlagSet("peer", flag.ExitOnError)
	flags.StringVar(&c.Dir, "dir", "", "")
	flags.StringVar(&c.Provider, "provider", "", "")
	flags.StringVar(&c.Device, "device", "", "")
	flags.DurationVar(&c.Spin, "spin", 0, "")
	_ = flags.Parse(os.Args[1:])
	if err := Peer(context.Background(), c, os.Stdin, os.Stdout); err != nil {
		panic(err)
	}
}

// TestRun measures all providers with a second process.
func TestRun(t *testing.T) {
	t.Setenv(peerVariable, "1")
	c := Config{
		Program: []string{os.Args[0]}, Providers: []string{"shm", "soft"}, Spin: 50 * time.Microsecond, Count: 50, Size: 64,
		Outstanding: 32, Duration: 50 * time.Millisecond, Progress: func(string) {},
	}
	require.NoError(t, c.Validate())
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, r.Points, 2)
	for _, p := range r.Points {
		for _, l := range []Latency{p.Hop, p.Completion} {
			require.Positive(t, l.Min, p.Provider)
			require.GreaterOrEqual(t, l.Median, l.Min)
			require.GreaterOrEqual(t, l.P99, l.Median)
		}
		require.Positive(t, p.WritesPerSecond)
		require.Equal(t, p.Provider == "soft", p.Echo.Min > 0)
	}
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "soft")
}

// TestPeerEnds: the end of the peer is an error, not a wait.
func TestPeerEnds(t *testing.T) {
	c := Config{Program: []string{"/bin/true"}, Providers: []string{"shm"}, Progress: func(string) {}}
	_, err := Run(t.Context(), c)
	require.ErrorContains(t, err, "the peer has ended")
}

func TestValidate(t *testing.T) {
	good := Config{Count: 1, Size: 8, Outstanding: 1, Duration: 1}
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Config){
		"no provider": func(c *Config) { c.Providers = []string{"carrier pigeon"} },
		"hops":        func(c *Config) { c.Count = 0 },
		"bytes":       func(c *Config) { c.Size = regionSize + 1 },
		"outstanding": func(c *Config) { c.Outstanding = 0 },
		"duration":    func(c *Config) { c.Duration = 0 },
	} {
		c := good
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}
