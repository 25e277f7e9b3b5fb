package registry

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

var alpha = Presence{Name: "alpha", Instance: "f00d", Info: []byte("address: 10.0.0.1:7000\n")}

// announce announces p until the test ends, or until stop. The channel gets the result of Announce.
func announce(t *testing.T, r Registry, p Presence) (ended <-chan error, stop func()) {
	errs := make(chan error, 1)
	stop = run(t, func(ctx context.Context) { errs <- r.Announce(ctx, p) })
	return errs, stop
}

// awaitAlive returns when exactly these servers are live.
func awaitAlive(t *testing.T, r Registry, want ...Presence) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := r.Alive(t.Context())
		if err != nil || len(all) != len(want) {
			return false
		}
		for i, p := range all {
			if p.Name != want[i].Name || p.Instance != want[i].Instance || string(p.Info) != string(want[i].Info) {
				return false
			}
		}
		return true
	}, soon, tick)
}

func TestAServerIsLiveWhileItAnnouncesItself(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, said := open(t, testConfig(etcd.Endpoint()))
	awaitAlive(t, r)
	beta := Presence{Name: "beta", Instance: "cafe"}
	ended, stop := announce(t, r, alpha)
	announce(t, r, beta)
	awaitAlive(t, r, alpha, beta)

	// Longer than its lease.
	lease := testLease(t, etcd, r)
	time.AfterFunc(2*r.config.Lease, stop)
	require.NoError(t, <-ended)
	all, err := r.Alive(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "it takes itself out: nobody waits for its lease")
	left, err := raw(t, etcd.Endpoint()).TimeToLive(t.Context(), lease)
	require.NoError(t, err)
	require.EqualValues(t, -1, left.TTL, "its lease is revoked")
	require.Zero(t, said.Count("WARN"), "the lease was renewed all the time")
}

// testLease returns the lease of alpha.
func testLease(t *testing.T, etcd *registrytest.Etcd, r *Etcd) clientv3.LeaseID {
	t.Helper()
	got, err := raw(t, etcd.Endpoint()).Get(t.Context(), r.liveKey(alpha.Name))
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	return clientv3.LeaseID(got.Kvs[0].Lease)
}

func TestALostAnnouncementComesBack(t *testing.T) {
	harms := map[string]func(*testing.T, *registrytest.Etcd, *Etcd, *log){
		"etcd is paused for longer than the lease": func(t *testing.T, e *registrytest.Etcd, _ *Etcd, said *log) {
			e.Pause(t)
			said.await(t, "do not see")
			e.Resume(t)
		},
		"etcd is away for longer than the lease": func(t *testing.T, e *registrytest.Etcd, _ *Etcd, said *log) {
			e.Kill()
			said.await(t, "do not see")
			e.Restart(t)
		},
		"etcd forgets all": func(t *testing.T, e *registrytest.Etcd, _ *Etcd, said *log) {
			e.Kill()
			require.NoError(t, os.RemoveAll(e.Dir))
			e.Restart(t)
		},
		"the lease is revoked": func(t *testing.T, e *registrytest.Etcd, r *Etcd, _ *log) {
			_, err := raw(t, e.Endpoint()).Revoke(t.Context(), testLease(t, e, r))
			require.NoError(t, err)
		},
		"the key is deleted": func(t *testing.T, e *registrytest.Etcd, r *Etcd, _ *log) {
			_, err := raw(t, e.Endpoint()).Delete(t.Context(), r.liveKey(alpha.Name))
			require.NoError(t, err)
		},
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			etcd := registrytest.Start(t)
			noLeaks(t)
			config := testConfig(etcd.Endpoint())
			config.Timeout = time.Second
			r, said := open(t, config)
			ended, stop := announce(t, r, alpha)
			awaitAlive(t, r, alpha)
			harm(t, etcd, r, said)
			said.await(t, "live again")
			awaitAlive(t, r, alpha)
			require.Equal(t, 1, said.Count("do not see"))
			require.Equal(t, 1, said.Count("live again"))
			stop()
			require.NoError(t, <-ended)
			awaitAlive(t, r)
		})
	}
}

// A full etcd renews leases but grants none.
func TestAFullEtcdIsSaidAndWaitedFor(t *testing.T) {
	etcd := registrytest.StartWith(t, registrytest.Options{Args: []string{"--quota-backend-bytes", "2097152"}})[0]
	noLeaks(t)
	r, said := open(t, testConfig(etcd.Endpoint()))
	announce(t, r, alpha)
	awaitAlive(t, r, alpha)
	operator := raw(t, etcd.Endpoint())
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		if _, err := operator.Put(t.Context(), "/other", strings.Repeat("x", 256<<10)); err != nil {
			break
		}
	}
	err := r.Mark(t.Context(), "beta")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "alarm disarm")
	awaitAlive(t, r, alpha)

	_, err = operator.Revoke(t.Context(), testLease(t, etcd, r))
	require.NoError(t, err)
	said.await(t, "do not see")
	present, err := operator.Get(t.Context(), "/other")
	require.NoError(t, err)
	_, err = operator.Compact(t.Context(), present.Header.Revision)
	require.NoError(t, err)
	_, err = operator.Defragment(t.Context(), etcd.Endpoint())
	require.NoError(t, err)
	_, err = operator.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	said.await(t, "live again")
	awaitAlive(t, r, alpha)
}

// A process that died silently leaves its lease.
func TestANameIsFreeOnceTheLeaseEnds(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, _ := open(t, testConfig(etcd.Endpoint()))
	require.NoError(t, r.Claim(t.Context(), alpha))
	other := Presence{Name: alpha.Name, Instance: "beef"}
	require.ErrorIs(t, r.Claim(t.Context(), other), ErrTaken)
	require.Eventually(t, func() bool {
		err := r.Claim(t.Context(), other)
		require.True(t, err == nil || errors.Is(err, ErrTaken), "%v", err)
		return err == nil
	}, soon, tick)
	require.ErrorIs(t, r.Claim(t.Context(), alpha), ErrTaken)
}

func TestARestartedServerHasItsNameAtOnce(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	config := testConfig(etcd.Endpoint())
	config.Lease = time.Hour // practically for ever
	died, _ := open(t, config)
	require.NoError(t, died.Claim(t.Context(), alpha))
	config.Lease = 2 * time.Second
	restarted, _ := open(t, config)
	moved := Presence{Name: alpha.Name, Instance: alpha.Instance, Info: []byte("address: 10.0.0.2:7000\n")}
	announce(t, restarted, moved)
	awaitAlive(t, restarted, moved)
}

func TestKeysThatMakeNoSense(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, said := open(t, testConfig(etcd.Endpoint()))
	for key, value := range map[string]string{"alpha": "by hand", "a/b": "f00d\n", "": "f00d\n"} {
		_, err := raw(t, etcd.Endpoint()).Put(t.Context(), r.liveKey(key), value)
		require.NoError(t, err)
	}
	require.NoError(t, r.Claim(t.Context(), Presence{Name: "beta", Instance: "cafe"}))
	awaitAlive(t, r, Presence{Name: "beta", Instance: "cafe"})
	require.NotZero(t, said.Count("is invalid"))
	require.NoError(t, r.Claim(t.Context(), alpha), "nobody has the name")
}

func FuzzPresence(f *testing.F) {
	f.Add("alpha", []byte("f00d\naddress: 10.0.0.1:7000\n"))
	f.Add("alpha", []byte("f00d\n"))
	f.Add("alpha", []byte("f00d"))
	f.Add("a/b", []byte("f00d\n"))
	f.Add("alpha", []byte("\n\n"))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		p, err := decodePresence(name, value)
		if err != nil {
			return
		}
		require.NoError(t, p.validate())
		require.Equal(t, string(value), p.encode())
	})
}
