package registry

import (
	"context"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/globalfs/globalfs/test/logged"
)

const (
	soon = 30 * time.Second
	tick = 10 * time.Millisecond
)

// log is the log of a Registry.
type log struct{ logged.Text }

func (l *log) await(t *testing.T, words string) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Has(words) }, soon, tick, "not logged: %s", words)
}

func testConfig(endpoints ...string) Config {
	return Config{Endpoints: endpoints, Cluster: "here", Timeout: 5 * time.Second, Lease: 2 * time.Second}
}

// open returns a Registry that is closed at the end of the test, and its log.
func open(t *testing.T, config Config) (*Etcd, *log) {
	t.Helper()
	said := &log{}
	config.Logger = said.Logger()
	r, err := OpenEtcd(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r, said
}

// raw returns a client of etcd, for an operator's actions.
func raw(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// running are goroutines of this package and below it.
var running = regexp.MustCompile(`internal/registry\.\(\*|go\.etcd\.io/etcd|google\.golang\.org/grpc`)

// noLeaks checks for leaked goroutines at the end of the test, after all cleanups that are registered from
// now on.
func noLeaks(t *testing.T) {
	t.Cleanup(func() {
		var stacks []byte
		require.Eventually(t, func() bool {
			stacks = make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			return !running.Match(stacks)
		}, soon, tick, "goroutines are left")
	})
}

// run runs f until the test ends, or until stop, which waits for its end.
func run(t *testing.T, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}
