package mount

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client/clienttest"
)

// believing mounts with a kernel that caches names for an hour.
func believing(t *testing.T, n *clienttest.Network) *mounted {
	t.Helper()
	return mountAs(t, n, func(cfg *Config) { cfg.CacheTime = time.Hour })
}

// hears waits until the kernel of b gets notices of changes by a. There are no notices before the first
// answer to b's watcher.
func hears(t *testing.T, a, b *mounted) {
	t.Helper()
	_, err := os.Stat(b.path("not there"))
	require.ErrorIs(t, err, os.ErrNotExist)
	probe := 0
	require.True(t, eventually(time.Minute, func() bool {
		probe++
		name := fmt.Sprint("probe", probe)
		require.NoError(t, os.WriteFile(a.path(name), nil, 0o644))
		b.client.Observe(a.client.Proofs())
		_, err := os.Stat(b.path(name))
		require.NoError(t, err)
		require.NoError(t, os.Remove(a.path(name)))
		return eventually(100*time.Millisecond, func() bool { return isGone(b.path(name)) })
	}))
}

// The kernel gets notices of names that another mount changes: without them it would cache the old names for
// an hour.
func TestKernelHearsOfNames(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), believing(t, n)
	hears(t, a, b)

	require.NoError(t, os.Mkdir(a.path("d"), 0o755))
	a.write(t, "d/old", "content")
	b.client.Observe(a.client.Proofs())
	require.Equal(t, "content", b.read(t, "d/old"))
	in, err := os.Open(b.path("d"))
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, os.Rename(a.path("d/old"), a.path("d/new")))
	require.True(t, eventually(time.Minute, func() bool { return isGone(b.path("d/old")) }), "the name has changed")
	require.Equal(t, "content", b.read(t, "d/new"))
	require.NoError(t, os.Rename(a.path("d"), a.path("e")))
	require.True(t, eventually(time.Minute, func() bool { return isGone(b.path("d")) }))
	require.Equal(t, "content", b.read(t, "e/new"))
	_, err = in.Readdirnames(-1)
	require.NoError(t, err, "what is open stays")
}

// Both mounts make, rename and remove names in one directory and get notices of each other: nothing gets
// stuck.
func TestKernelHearsWhileItWorks(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	require.NoError(t, os.Mkdir(a.path("d"), 0o755))
	b.client.Observe(a.client.Proofs())
	var all sync.WaitGroup
	for i, m := range []*mounted{a, b, a, b} {
		all.Go(func() {
			for j := range 100 {
				one, two := m.path("d/"+string(rune('a'+j%3))), m.path("d/"+string(rune('a'+(i+j)%4)))
				if f, err := os.OpenFile(one, os.O_CREATE|os.O_RDWR, 0o644); err == nil {
					f.Close()
				} else if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESTALE) { // others replace the file all the time
					t.Error(err)
				}
				_ = os.Rename(one, two)
				_, _ = os.ReadDir(m.path("d"))
				_ = os.Remove(two)
			}
		})
	}
	all.Wait()
	a.client.Observe(b.client.Proofs())
	b.client.Observe(a.client.Proofs())
	of := func(m *mounted) (names []string) {
		entries, err := os.ReadDir(m.path("d"))
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	require.Equal(t, of(a), of(b))
}

// A notice does not wait for the lock of a directory that a slow request holds: all other requests of the
// directory would wait behind it. The kernel gets the notice after the request.
func TestANoticeWaitsForNoRequest(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), believing(t, n)
	a.write(t, "old", "")
	hears(t, a, b)
	require.NoFileExists(t, b.path("healthy"))
	require.FileExists(t, b.path("old"))
	local := n.Plan.Partitions[1]
	replicas := n.Processes(1, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	before := n.Calls(replicas...)
	slow := make(chan error, 1)
	go func() {
		_, err := os.Stat(b.path(local.Path[1:]))
		slow <- err
	}()
	n.AwaitCalls(before+1, replicas...)
	require.NoError(t, os.Remove(a.path("old")))
	require.NoError(t, os.WriteFile(a.path("healthy"), nil, 0o644))
	b.client.Observe(a.client.Proofs())
	eventually(200*time.Millisecond, func() bool { // the notices come
		_, err := os.Stat(b.path("healthy"))
		require.NoError(t, err)
		return false
	})
	select {
	case err := <-slow:
		t.Fatal("the request was not slow", err)
	default:
	}
	n.Fail(clienttest.None, replicas...)
	require.NoError(t, <-slow)
	require.True(t, eventually(time.Minute, func() bool { return isGone(b.path("old")) }))
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// eventually waits for a condition.
func eventually(most time.Duration, is func() bool) bool {
	for end := time.Now().Add(most); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
