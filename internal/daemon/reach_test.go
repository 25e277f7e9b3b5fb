package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// scripted answers for servers by their addresses: with the state of their registry, an error, or never.
type scripted map[string]func(context.Context) (ServerStatus, error)

func (a scripted) CallAddress(ctx context.Context, address string, _ []byte) ([]byte, error) {
	status, err := a[address](ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(status)
}

// A stopped server does not delay a request that any server can serve. A server that reaches the registry
// comes before others.
func TestFirstAnswer(t *testing.T) {
	good := func(context.Context) (ServerStatus, error) { return ServerStatus{}, nil }
	cut := func(context.Context) (ServerStatus, error) { return ServerStatus{Registry: "no etcd"}, nil }
	dead := func(context.Context) (ServerStatus, error) { return ServerStatus{}, errors.New("refused") }
	stopped := func(ctx context.Context) (ServerStatus, error) {
		<-ctx.Done()
		return ServerStatus{}, ctx.Err()
	}
	afterOthers := func(ctx context.Context) (ServerStatus, error) {
		select {
		case <-ctx.Done():
			return ServerStatus{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
			return ServerStatus{}, nil
		}
	}
	for name, c := range map[string]struct {
		servers  scripted
		found    string
		patience time.Duration
	}{
		"stopped":     {scripted{"a": stopped, "b": good, "c": dead}, "b", time.Hour},
		"cut off":     {scripted{"a": cut, "b": afterOthers, "c": stopped}, "b", time.Hour},
		"all cut off": {scripted{"a": dead, "b": cut, "c": stopped}, "b", 50 * time.Millisecond},
		"none":        {scripted{"a": dead, "b": dead, "c": stopped}, "", 50 * time.Millisecond},
	} {
		var servers []topology.Server
		for _, s := range []string{"a", "b", "c"} {
			servers = append(servers, topology.Server{Name: s, Address: s})
		}
		found := firstAnswer(t.Context(), c.servers, servers, c.patience)
		if c.found == "" {
			require.Nil(t, found, name)
			continue
		}
		require.NotNil(t, found, name)
		require.Equal(t, c.found, found.Name, name)
	}
}
