package daemon

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
)

// lines is an io.Writer that sends each line of a log to the channel, and drops it if the channel is full.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// TestForeignDescription: a description in the registry without a server that runs does not stop that server.
// Only a person could have put it there.
func TestForeignDescription(t *testing.T) {
	w := newWorld(t, []topology.Region{"one"}, 1)
	said := make(lines, 1)
	logger := slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelError}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s, err := StartServer(ctx, ServerConfig{File: &w.file, Name: "onea", Tuning: server.Tuning{Healing: blocktest.Impatient()}, Build: "test", Logger: logger})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	before := s.known.current.Load()

	foreign, err := s.edit(ctx, func(spec *topology.Spec, _ *topology.Cluster) error {
		spec.Regions, spec.Addresses = []topology.Region{"two"}, map[string]string{"twoa": spec.Addresses["onea"]}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, foreign.spec.Version, before.spec.Version)
	select {
	case line := <-said:
		require.Contains(t, line, "is unusable")
		require.Contains(t, line, "no server of this name")
	case err := <-done:
		t.Fatal("the server has ended: ", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the server has not heard of the change")
	}
	var status ServerStatus
	require.NoError(t, w.operator().Ask(ctx, "onea", &Request{Op: Status}, &status))
	require.Equal(t, before.spec.Version, status.Version)
	stop()
	require.NoError(t, <-done)
}
