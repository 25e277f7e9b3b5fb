package registry

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

// operations returns all operations that end by themselves.
func operations(r *Etcd) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"bootstrap": func(ctx context.Context) error { _, _, err := r.Bootstrap(ctx, []byte("x")); return err },
		"load":      func(ctx context.Context) error { _, err := r.Load(ctx); return err },
		"swap":      func(ctx context.Context) error { _, err := r.Swap(ctx, 1, []byte("x")); return err },
		"alive":     func(ctx context.Context) error { _, err := r.Alive(ctx); return err },
		"claim":     func(ctx context.Context) error { return r.Claim(ctx, alpha) },
		"mark":      func(ctx context.Context) error { return r.Mark(ctx, "alpha") },
		"marked":    func(ctx context.Context) error { _, err := r.Marked(ctx, "alpha"); return err },
		"remove":    r.Remove,
	}
}

// requireUnavailable checks the error of each operation, and its time.
func requireUnavailable(t *testing.T, r *Etcd) {
	t.Helper()
	var mu sync.Mutex
	errs := map[string]error{}
	begun := time.Now()
	var all sync.WaitGroup
	for name, operate := range operations(r) {
		all.Go(func() {
			err := operate(t.Context())
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	all.Wait()
	require.Less(t, time.Since(begun), r.config.Timeout+2*time.Second)
	for name, err := range errs {
		require.ErrorIs(t, err, ErrUnavailable, name)
		require.ErrorContains(t, err, r.config.Endpoints[0], name)
	}
}

func TestOperationsEndWithoutEtcd(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	config := testConfig(etcd.Endpoint())
	config.Timeout = 500 * time.Millisecond
	etcd.Stop(t)
	r, _ := open(t, config)
	requireUnavailable(t, r)
	_, err := r.Load(t.Context())
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, `load the description of cluster "here"`)
	require.ErrorContains(t, err, "check that it runs")

	// One call waits for etcd, and succeeds if etcd starts in time.
	config.Timeout = soon
	patient, _ := open(t, config)
	waited := make(chan error, 1)
	go func() {
		_, _, err := patient.Bootstrap(t.Context(), []byte("born"))
		waited <- err
	}()
	etcd.Restart(t)
	require.NoError(t, <-waited)
	require.Eventually(t, func() bool {
		d, err := r.Load(t.Context())
		return err == nil && string(d.Value) == "born"
	}, soon, tick)

	etcd.Pause(t)
	requireUnavailable(t, r)
	etcd.Resume(t)
	require.Eventually(t, func() bool { return r.Mark(t.Context(), "alpha") == nil }, soon, tick)
	etcd.Kill()
	requireUnavailable(t, r)
	etcd.Restart(t)
	require.Eventually(t, func() bool {
		if r.Mark(t.Context(), "alpha") != nil { // again: a Remove that timed out at the paused etcd may have come after the first
			return false
		}
		marked, err := r.Marked(t.Context(), "alpha")
		return err == nil && marked
	}, soon, tick)
}

func TestNobodyWaitsForWhoEndsAStart(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	etcd.Kill()
	config := testConfig(etcd.Endpoint())
	config.Timeout = time.Hour
	for _, password := range []string{"", "secret"} { // with a password, the first operation logs in before
		config.Password = password
		if password != "" {
			config.Username = "root"
		}
		r, _ := open(t, config)
		for name, operate := range operations(r) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			err := operate(ctx)
			require.ErrorIs(t, err, context.Canceled, name)
			require.NotErrorIs(t, err, ErrUnavailable, name)
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			err = operate(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorIs(t, err, ErrUnavailable, name)
		}
		stop := run(t, func(ctx context.Context) { r.Watch(ctx, func(Document) {}) })
		ended, stopToo := announce(t, r, alpha)
		stop()
		stopToo()
		require.NoError(t, <-ended)
	}
}

func TestAClosedRegistry(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	used, _ := open(t, testConfig(etcd.Endpoint()))
	require.NoError(t, used.Mark(t.Context(), "alpha"))
	unused, _ := open(t, testConfig(etcd.Endpoint()))
	for _, r := range []*Etcd{used, unused} {
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		for name, operate := range operations(r) {
			require.ErrorIs(t, operate(t.Context()), errClosed, name)
		}
	}
}

func TestPasswords(t *testing.T) {
	etcd := registrytest.StartWith(t, registrytest.Options{Args: []string{"--snapshot-count", "5"}})[0]
	noLeaks(t)
	operator := raw(t, etcd.Endpoint())
	for _, user := range []string{"root", "guest"} {
		_, err := operator.UserAdd(t.Context(), user, "secret of "+user)
		require.NoError(t, err)
	}
	_, err := operator.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = operator.AuthEnable(t.Context())
	require.NoError(t, err)

	config := testConfig(etcd.Endpoint())
	for words, user := range map[string][2]string{
		"check the user's name and password": {"root", "wrong"},
		"it asks for a user":                 {},
		"let the user read and write":        {"guest", "secret of guest"},
	} {
		config.Username, config.Password = user[0], user[1]
		r, _ := open(t, config)
		for name, operate := range operations(r) {
			err := operate(t.Context())
			require.ErrorContains(t, err, words, name)
			require.NotErrorIs(t, err, ErrUnavailable, name)
			require.NotContains(t, err.Error(), "secret")
		}
	}

	config.Username, config.Password = "root", "secret of root"
	r, said := open(t, config)
	r.refresh = 200 * time.Millisecond
	said.await(t, "in the clear")
	_, _, err = r.Bootstrap(t.Context(), []byte("before"))
	require.NoError(t, err)
	var s shown
	run(t, func(ctx context.Context) { r.Watch(ctx, s.show) })
	announce(t, r, alpha)
	awaitAlive(t, r, alpha)
	s.await(t, "before")
	// The content of a snapshot is not replayed: the logins before it are forgotten.
	for i := range 20 {
		require.NoError(t, r.Mark(t.Context(), fmt.Sprint("server ", i)))
	}
	etcd.Kill()
	etcd.Restart(t)
	set(t, r, "after")
	s.await(t, "after")
	awaitAlive(t, r, alpha)
}

func TestCertificates(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	etcd := registrytest.StartWith(t, registrytest.Options{TLS: ours.files(t)})[0]
	noLeaks(t)
	config := testConfig(etcd.Endpoint())
	config.TLS = ours.client(t)
	r, _ := open(t, config)
	_, created, err := r.Bootstrap(t.Context(), []byte("x"))
	require.NoError(t, err)
	require.True(t, created)

	config.Timeout = 2 * time.Second        // includes the time to read the system's authorities
	const hint = "the certificates of both" // etcd often closes the connection before its reason was read
	strangers := map[string]struct {
		config *tls.Config
		words  string
	}{
		"trusts another authority":        {theirs.client(t), "x509: certificate signed by unknown authority"},
		"trusts the system's authorities": {nil, "x509: certificate signed by unknown authority"},
		"has a certificate of another authority": {
			&tls.Config{RootCAs: ours.client(t).RootCAs, Certificates: theirs.client(t).Certificates}, hint,
		},
		"has no certificate": {&tls.Config{RootCAs: ours.client(t).RootCAs}, hint},
	}
	for name, s := range strangers {
		t.Run(name, func(t *testing.T) {
			config.TLS = s.config
			stranger, _ := open(t, config)
			requireUnavailable(t, stranger)
			_, err := stranger.Load(t.Context())
			require.ErrorContains(t, err, s.words)
		})
	}

	config.TLS = nil
	config.Endpoints = []string{"http" + etcd.Endpoint()[len("https"):]}
	stranger, _ := open(t, config)
	requireUnavailable(t, stranger)
}
