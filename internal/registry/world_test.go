package registry

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	soon = 30 * time.Second
	tick = 10 * time.Millisecond
)

// log is what a Registry says.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer // GUARDED_BY mu
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count tells how many lines have words.
func (l *log) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), words)
}

func (l *log) await(t *testing.T, words string) {
	t.Helper()
	require.Eventually(t, func() bool { return l.count(words) > 0 }, soon, tick, "not logged: %s", words)
}

func testConfig(endpoints ...string) Config {
	return Config{Endpoints: endpoints, Cluster: "here", Timeout: 5 * time.Second, Lease: 2 * time.Second}
}

// open gives a Registry that is closed at the end of the test, and what it says.
func open(t *testing.T, config Config) (*Etcd, *log) {
	t.Helper()
	said := &log{}
	config.Logger = slog.New(slog.NewTextHandler(said, nil))
	r, err := OpenEtcd(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r, said
}

// raw gives a client of etcd, for what an operator does.
func raw(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// running are goroutines of this package and below it.
var running = regexp.MustCompile(`internal/registry\.\(\*|go\.etcd\.io/etcd|google\.golang\.org/grpc`)

// noLeaks looks at the end of the test, after all that is registered from now on, whether goroutines are left.
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
