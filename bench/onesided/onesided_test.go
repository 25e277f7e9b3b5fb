package onesided

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func small() Config {
	c := Default()
	c.Quick()
	c.Warmup, c.Window, c.Beside = 50*time.Microsecond, 150*time.Microsecond, nil
	return c
}

// TestShapes: with one destination, TRAM is genuine: three writes for the input, three for the log, and the
// commit words and credits; the tree does not matter. With more destinations it does.
func TestShapes(t *testing.T) {
	r, err := Run(context.Background(), small())
	require.NoError(t, err)
	require.Len(t, r.Points, 6)
	for _, p := range r.Points {
		require.Positive(t, p.Messages)
		require.GreaterOrEqual(t, p.Sent, 6.0)
		require.LessOrEqual(t, p.Median, p.P95)
	}
	single, several := r.Points[0], r.Points[3:]
	for _, p := range several {
		require.Greater(t, p.Median, single.Median)
		require.Greater(t, p.Sent, single.Sent)
	}
	require.Greater(t, several[2].Sent, several[1].Sent, "a message passes more groups of a chain than of a star")
}

func TestEqualSeedsGiveEqualFigures(t *testing.T) {
	c := small()
	c.Shapes, c.Destinations = c.Shapes[:1], []int{2}
	a, err := Run(context.Background(), c)
	require.NoError(t, err)
	b, err := Run(context.Background(), c)
	require.NoError(t, err)
	require.Equal(t, a, b)
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, small())
	require.ErrorIs(t, err, context.Canceled)
}

func TestConfigNamesTheWrongField(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"there is no tree": func(c *Config) { c.Shapes = []string{"bush"} },
		"destinations":     func(c *Config) { c.Destinations = []int{9} },
		"outstanding":      func(c *Config) { c.Outstanding = nil },
		"window":           func(c *Config) { c.Window = 0 },
		"payload":          func(c *Config) { c.Payload = -1 },
		"prices":           func(c *Config) { c.Cost.Step = 0 },
	} {
		c := Default()
		require.NoError(t, c.Validate())
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}
