package registry

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

// shown holds the documents that a Watch has shown.
type shown struct {
	mu  sync.Mutex
	all []Document // GUARDED_BY mu
}

func (s *shown) show(d Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

func (s *shown) documents() []Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[:len(s.all):len(s.all)]
}

// await returns when value was shown, and checks the order of all documents before.
func (s *shown) await(t *testing.T, value string) {
	t.Helper()
	require.Eventually(t, func() bool {
		all := s.documents()
		return len(all) > 0 && string(all[len(all)-1].Value) == value
	}, soon, tick, "not shown: %s", value)
	version := uint64(0)
	for _, d := range s.documents() {
		require.Greater(t, d.Version, version)
		version = d.Version
	}
}

// set changes the description, whatever its present value is.
func set(t *testing.T, r Registry, value string) {
	t.Helper()
	var err error
	changed := func() bool {
		var present Document
		if present, err = r.Load(t.Context()); err == nil {
			_, err = r.Swap(t.Context(), present.Version, []byte(value))
		}
		return err == nil
	}
	for begun := time.Now(); !changed(); {
		require.Less(t, time.Since(begun), soon, "%v", err)
	}
}

func TestWatchShowsThePresentAndEachChange(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	writer, _ := open(t, testConfig(etcd.Endpoint()))
	reader, said := open(t, testConfig(etcd.Endpoint()))
	var early, late shown
	stop := run(t, func(ctx context.Context) { reader.Watch(ctx, early.show) })
	_, _, err := writer.Bootstrap(t.Context(), []byte("born"))
	require.NoError(t, err)
	early.await(t, "born")
	run(t, func(ctx context.Context) { reader.Watch(ctx, late.show) })
	late.await(t, "born")
	for i := range 20 {
		set(t, writer, fmt.Sprint("change ", i))
	}
	early.await(t, "change 19")
	late.await(t, "change 19")
	require.Len(t, early.documents(), 21, "none was left out: they came one by one")

	stop()
	set(t, writer, "unseen")
	late.await(t, "unseen")
	require.Len(t, early.documents(), 21)
	require.Zero(t, said.Count("WARN"))
}

func TestWatchOutlivesEtcd(t *testing.T) {
	harms := map[string]struct {
		harm, heal func(*testing.T, *registrytest.Etcd)
	}{
		"killed": {
			func(_ *testing.T, e *registrytest.Etcd) { e.Kill() },
			func(t *testing.T, e *registrytest.Etcd) { e.Restart(t) },
		},
		"stopped": {
			func(t *testing.T, e *registrytest.Etcd) { e.Stop(t) },
			func(t *testing.T, e *registrytest.Etcd) { e.Restart(t) },
		},
		"paused": {
			func(t *testing.T, e *registrytest.Etcd) { e.Pause(t) },
			func(t *testing.T, e *registrytest.Etcd) { e.Resume(t) },
		},
	}
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			etcd := registrytest.Start(t)
			noLeaks(t)
			config := testConfig(etcd.Endpoint())
			config.Timeout = time.Second
			r, said := open(t, config)
			r.refresh = 200 * time.Millisecond
			_, _, err := r.Bootstrap(t.Context(), []byte("before"))
			require.NoError(t, err)
			var s shown
			run(t, func(ctx context.Context) { r.Watch(ctx, s.show) })
			s.await(t, "before")

			h.harm(t, etcd)
			said.await(t, "cannot be received")
			h.heal(t, etcd)
			set(t, r, "after")
			s.await(t, "after")
			said.await(t, "are received again")
			require.Equal(t, 1, said.Count("cannot be received"))
			require.Equal(t, 1, said.Count("are received again"))
		})
	}
}

// A restart that is over before the next round has no effect: the watch resumes at its position.
func TestWatchResumesAfterARestart(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, said := open(t, testConfig(etcd.Endpoint()))
	_, _, err := r.Bootstrap(t.Context(), []byte("before"))
	require.NoError(t, err)
	var s shown
	run(t, func(ctx context.Context) { r.Watch(ctx, s.show) })
	s.await(t, "before")
	etcd.Kill()
	etcd.Restart(t)
	set(t, r, "after")
	s.await(t, "after")
	require.Zero(t, said.Count("cannot be received"))
}

// Each member in turn is deaf, including the leader: its connections stay, and it sends nothing.
func TestWatchLeavesADeafMember(t *testing.T) {
	members := registrytest.StartWith(t, registrytest.Options{Members: 3})
	noLeaks(t)
	config := testConfig(registrytest.Endpoints(members)...)
	config.Timeout = time.Second
	reader, _ := open(t, config)
	reader.refresh = 500 * time.Millisecond
	var s shown
	for i, deaf := range members {
		config.Endpoints = nil
		for _, e := range members {
			if e != deaf {
				config.Endpoints = append(config.Endpoints, e.Endpoint())
			}
		}
		writer, _ := open(t, config)
		if i == 0 {
			_, _, err := writer.Bootstrap(t.Context(), []byte("born"))
			require.NoError(t, err)
			run(t, func(ctx context.Context) { reader.Watch(ctx, s.show) })
			s.await(t, "born")
		}
		deaf.Pause(t)
		for n := range 3 {
			set(t, writer, fmt.Sprintf("without %d, %d", i, n))
			s.await(t, fmt.Sprintf("without %d, %d", i, n))
		}
		deaf.Resume(t)
	}
}

func TestWatchLoadsAnewAfterACompaction(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, said := open(t, testConfig(etcd.Endpoint()))
	_, _, err := r.Bootstrap(t.Context(), []byte("born"))
	require.NoError(t, err)
	var s shown
	loaded, compacted := make(chan struct{}), make(chan struct{})
	run(t, func(ctx context.Context) {
		r.Watch(ctx, func(d Document) {
			if string(d.Value) == "born" { // between load and watch
				close(loaded)
				<-compacted
			}
			s.show(d)
		})
	})
	<-loaded
	set(t, r, "lost")
	set(t, r, "kept")
	present, err := r.Load(t.Context())
	require.NoError(t, err)
	_, err = raw(t, etcd.Endpoint()).Compact(t.Context(), int64(present.Version))
	require.NoError(t, err)
	close(compacted)
	s.await(t, "kept")
	require.Len(t, s.documents(), 2, "what was compacted cannot be shown")
	set(t, r, "after")
	s.await(t, "after")
	require.Zero(t, said.Count("WARN"))
}

func TestWatchSaysThatEtcdWentBack(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, said := open(t, testConfig(etcd.Endpoint()))
	r.refresh = 200 * time.Millisecond
	_, _, err := r.Bootstrap(t.Context(), []byte("0"))
	require.NoError(t, err)
	for i := range 5 {
		set(t, r, fmt.Sprint(i+1))
	}
	var s shown
	run(t, func(ctx context.Context) { r.Watch(ctx, s.show) })
	s.await(t, "5")
	etcd.Kill()
	require.NoError(t, os.RemoveAll(etcd.Dir))
	etcd.Restart(t)
	_, created, err := r.Bootstrap(t.Context(), []byte("back"))
	require.NoError(t, err)
	require.True(t, created)
	said.await(t, "older description")
	require.Equal(t, 1, said.Count("older description"))
	for i := range 10 {
		set(t, r, fmt.Sprint("on ", i))
	}
	s.await(t, "on 9") // and never "back"
	for _, d := range s.documents() {
		require.NotEqual(t, "back", string(d.Value))
	}
}
