package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

// both runs a test of the guarantees of every Registry on each implementation. open returns another access to
// the one cluster.
func both(t *testing.T, test func(t *testing.T, open func() Registry)) {
	t.Run("etcd", func(t *testing.T) {
		etcd := registrytest.Start(t)
		noLeaks(t)
		test(t, func() Registry {
			r, said := open(t, testConfig(etcd.Endpoint()))
			t.Cleanup(func() { require.Zero(t, said.Count("WARN")) })
			return r
		})
	})
	t.Run("local", func(t *testing.T) {
		noLeaks(t)
		r, err := OpenLocal(filepath.Join(t.TempDir(), "registry.json"))
		require.NoError(t, err)
		test(t, func() Registry { return r })
	})
}

func TestOneOfTenBootstraps(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		type outcome struct {
			document Document
			created  bool
			err      error
		}
		outcomes := make([]outcome, 10)
		var all sync.WaitGroup
		for i := range outcomes {
			r := open()
			all.Go(func() {
				o := &outcomes[i]
				o.document, o.created, o.err = r.Bootstrap(t.Context(), fmt.Append(nil, "by ", i))
			})
		}
		all.Wait()

		r := open()
		present, err := r.Load(t.Context())
		require.NoError(t, err)
		created := 0
		for i, o := range outcomes {
			require.NoError(t, o.err)
			require.Equal(t, present, o.document)
			if o.created {
				created++
				require.Equal(t, fmt.Sprint("by ", i), string(present.Value))
			}
		}
		require.Equal(t, 1, created)

		again, fresh, err := r.Bootstrap(t.Context(), []byte("once more"))
		require.NoError(t, err)
		require.False(t, fresh)
		require.Equal(t, present, again)
	})
}

func TestSwapsLoseNoUpdate(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		first := open()
		_, _, err := first.Bootstrap(t.Context(), []byte("0"))
		require.NoError(t, err)
		const writers, each = 4, 10
		errs := make([]error, writers)
		var all sync.WaitGroup
		for i := range writers {
			r := open()
			all.Go(func() {
				for n := 0; n < each && errs[i] == nil; {
					err := increment(t, r)
					if err == nil {
						n++
					} else if !errors.Is(err, ErrConflict) {
						errs[i] = err
					}
				}
			})
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...))
		last, err := first.Load(t.Context())
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(writers*each), string(last.Value))
	})
}

// increment increments the description, unless another process was faster.
func increment(t *testing.T, r Registry) error {
	seen, err := r.Load(t.Context())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(seen.Value))
	if err != nil {
		return err
	}
	version, err := r.Swap(t.Context(), seen.Version, []byte(strconv.Itoa(n+1)))
	if err == nil && version <= seen.Version {
		return fmt.Errorf("version %d follows %d", version, seen.Version)
	}
	return err
}

func TestDescriptionsHaveABound(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		r := open()
		for _, value := range [][]byte{nil, make([]byte, MaxValue+1)} {
			_, _, err := r.Bootstrap(t.Context(), value)
			require.ErrorContains(t, err, "give 1 to 1048576")
			_, err = r.Swap(t.Context(), 1, value)
			require.ErrorContains(t, err, "give 1 to 1048576")
		}
		_, err := r.Load(t.Context())
		require.ErrorIs(t, err, ErrNotFound)

		largest := bytes.Repeat([]byte("x"), MaxValue)
		d, _, err := r.Bootstrap(t.Context(), largest)
		require.NoError(t, err)
		_, err = r.Swap(t.Context(), 0, largest)
		require.ErrorContains(t, err, "swap version 0")
		_, err = r.Swap(t.Context(), d.Version, largest)
		require.NoError(t, err)
	})
}

func TestANameIsTakenByOneInstance(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		first := open()
		second := open()
		other := Presence{Name: alpha.Name, Instance: "beef"}

		require.NoError(t, first.Claim(t.Context(), alpha))
		ended, stop := announce(t, first, alpha) // first has claimed alpha
		err := second.Claim(t.Context(), other)
		require.ErrorIs(t, err, ErrTaken)
		require.NotErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, "f00d")
		require.ErrorContains(t, err, "10.0.0.1:7000")
		require.ErrorIs(t, second.Announce(t.Context(), other), ErrTaken)
		awaitAlive(t, second, alpha)

		stop()
		require.NoError(t, <-ended)
		// If Announce was stopped before it had taken the name over from Claim, the lease of Claim must end.
		require.Eventually(t, func() bool { return second.Claim(t.Context(), other) == nil }, soon, tick, "the first is gone")
		require.ErrorIs(t, first.Announce(t.Context(), alpha), ErrTaken)
	})
}

// Two processes with one instance have one process's data and a copy of it.
func TestACopyOfAServerIsFoundOut(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		original := open()
		ended, _ := announce(t, original, alpha)
		awaitAlive(t, original, alpha)
		require.NoError(t, original.Claim(t.Context(), alpha)) // by the copy
		select {
		case err := <-ended:
			require.ErrorIs(t, err, ErrTaken)
			require.ErrorContains(t, err, "copy")
		case <-time.After(soon):
			require.Fail(t, "the original was not told")
		}
	})
}

func TestPresencesThatAreNotValid(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		r := open()
		for words, p := range map[string]Presence{
			`server ""`:            {Instance: "f00d"},
			`server "a/b"`:         {Name: "a/b", Instance: "f00d"},
			`instance ""`:          {Name: "alpha"},
			`instance "f00d\nmore`: {Name: "alpha", Instance: "f00d\nmore"},
			"16385 bytes":          {Name: "alpha", Instance: "f00d", Info: make([]byte, MaxInfo+1)},
		} {
			require.ErrorContains(t, r.Claim(t.Context(), p), words)
			require.ErrorContains(t, r.Announce(t.Context(), p), words)
		}
	})
}

func TestMarksAreForGood(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		r := open()
		for _, name := range []string{"alpha", "beta"} {
			marked, err := r.Marked(t.Context(), name)
			require.NoError(t, err)
			require.False(t, marked, name)
			for range 2 {
				require.NoError(t, r.Mark(t.Context(), name))
				marked, err = open().Marked(t.Context(), name)
				require.NoError(t, err)
				require.True(t, marked, name)
			}
		}
		marked, err := r.Marked(t.Context(), "alph")
		require.NoError(t, err)
		require.False(t, marked)
		require.ErrorContains(t, r.Mark(t.Context(), "a/b"), `server "a/b"`)
		_, err = r.Marked(t.Context(), "")
		require.ErrorContains(t, err, `server ""`)
	})
}

func TestNotesAreReplaced(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		r := open()
		text, err := r.Noted(t.Context(), "alpha")
		require.NoError(t, err)
		require.Nil(t, text)
		require.NoError(t, r.Note(t.Context(), "beta", []byte("other")))
		for _, want := range []string{"one", "two", "two"} {
			require.NoError(t, r.Note(t.Context(), "alpha", []byte(want)))
			text, err = open().Noted(t.Context(), "alpha")
			require.NoError(t, err)
			require.Equal(t, want, string(text))
		}
		text, err = r.Noted(t.Context(), "beta")
		require.NoError(t, err)
		require.Equal(t, "other", string(text))
		require.ErrorContains(t, r.Note(t.Context(), "a/b", nil), `server "a/b"`)
		require.ErrorContains(t, r.Note(t.Context(), "alpha", make([]byte, MaxNote+1)), "at most")
		_, err = r.Noted(t.Context(), "")
		require.ErrorContains(t, err, `server ""`)
	})
}

// Watch shows the present description and the later ones, in order, to each watcher, until it is ended.
func TestWatchGoesOn(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		var early, late shown
		r := open()
		stop := run(t, func(ctx context.Context) { r.Watch(ctx, early.show) })
		_, _, err := open().Bootstrap(t.Context(), []byte("born"))
		require.NoError(t, err)
		early.await(t, "born")
		watcher := open()
		run(t, func(ctx context.Context) { watcher.Watch(ctx, late.show) })
		late.await(t, "born")
		for i := range 20 {
			set(t, r, fmt.Sprint("change ", i))
		}
		early.await(t, "change 19")
		late.await(t, "change 19")
		stop()
		seen := len(early.documents())
		set(t, r, "unseen")
		late.await(t, "unseen")
		require.Len(t, early.documents(), seen)
	})
}

// Operations do not wait after their context has ended, and have no effect then.
func TestOperationsEndWithTheirContext(t *testing.T) {
	both(t, func(t *testing.T, open func() Registry) {
		r := open()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, bootstrap := r.Bootstrap(ctx, []byte("value"))
		_, load := r.Load(ctx)
		_, swap := r.Swap(ctx, 1, []byte("value"))
		_, alive := r.Alive(ctx)
		_, marked := r.Marked(ctx, "alpha")
		_, noted := r.Noted(ctx, "alpha")
		for i, err := range []error{bootstrap, load, swap, alive, marked, noted, r.Note(ctx, "alpha", nil), r.Mark(ctx, "alpha"), r.Claim(ctx, alpha)} {
			require.ErrorIs(t, err, context.Canceled, i)
		}
		require.NoError(t, r.Announce(ctx, alpha))
		r.Watch(ctx, func(Document) { require.Fail(t, "shown") })
		_, err := r.Load(t.Context())
		require.ErrorIs(t, err, ErrNotFound)
	})
}
