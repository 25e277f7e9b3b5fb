package cluster

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/linear"
)

var linearFor = flag.Duration("linear.duration", 30*time.Second, "of the load of TestHistoriesAreLinearizable")

// Two mounts with --linearizable work on the same files, names and locks, in the global partition and in that
// of the region, while servers are killed and paused. The history of each object is linearizable.
func TestHistoriesAreLinearizable(t *testing.T) {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2})
	var mounts []string
	for range 2 {
		m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"), "--linearizable", "--timeout", "10s")
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		mounts = append(mounts, m.Dir)
	}
	require.NoError(t, os.Mkdir(filepath.Join(mounts[0], "global"), 0o777))
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(mounts[1], "global"))
		return err == nil
	}, patience, patience/100)

	ctx, cancel := context.WithTimeout(t.Context(), *linearFor)
	defer cancel()
	faulty := make(chan error, 1)
	go func() { faulty <- c.killAndPause(ctx) }()
	r, err := linear.Run(ctx, linear.Config{
		Mounts: mounts, Dirs: []string{"global", "west"}, Workers: 3, Window: 3 * time.Second, Within: time.Minute, Seed: uint64(time.Now().UnixNano()),
	})
	cancel()
	require.NoError(t, <-faulty)
	require.NoError(t, err)
	t.Logf("%d windows, done %v, refused %v, %d without an answer", r.Windows, r.Done, r.Refused, r.Unknowns)
	require.GreaterOrEqual(t, r.Windows, 2)
	for _, kind := range []linear.Kind{linear.Read, linear.Write, linear.Make, linear.Remove, linear.Look, linear.Lock, linear.Unlock} {
		require.Positive(t, r.Done[kind], kind)
	}
}

// killAndPause kills one server after another, and pauses the next one, until ctx ends. All servers run then.
func (c *Cluster) killAndPause(ctx context.Context) error {
	names := c.Names()
	for i := 0; pause.For(ctx, 2*time.Second) == nil; i++ {
		killed, paused := c.Servers[names[i%len(names)]], c.Servers[names[(i+1)%len(names)]]
		killed.Kill()
		_ = pause.For(ctx, time.Second) // also after ctx has ended the server starts again
		if err := killed.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		_ = pause.For(ctx, time.Second)
		paused.Signal(unix.SIGSTOP)
		_ = pause.For(ctx, time.Second)
		paused.Signal(unix.SIGCONT)
	}
	return nil
}
