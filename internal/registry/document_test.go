package registry

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

func TestOneOfTenBootstraps(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	type outcome struct {
		document Document
		created  bool
		err      error
	}
	outcomes := make([]outcome, 10)
	var all sync.WaitGroup
	for i := range outcomes {
		r, _ := open(t, testConfig(etcd.Endpoint()))
		all.Go(func() {
			o := &outcomes[i]
			o.document, o.created, o.err = r.Bootstrap(t.Context(), fmt.Append(nil, "by ", i))
		})
	}
	all.Wait()

	r, _ := open(t, testConfig(etcd.Endpoint()))
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
}

func TestSwapsLoseNoUpdate(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	first, _ := open(t, testConfig(etcd.Endpoint()))
	_, _, err := first.Bootstrap(t.Context(), []byte("0"))
	require.NoError(t, err)
	const writers, each = 4, 10
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		r, _ := open(t, testConfig(etcd.Endpoint()))
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
}

// increment counts one up, unless another one was faster.
func increment(t *testing.T, r *Registry) error {
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

func TestDescriptionsOfOneEtcdStandApart(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	config := testConfig(etcd.Endpoint())
	here, _ := open(t, config)
	config.Cluster = "there"
	there, _ := open(t, config)

	_, err := here.Load(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, `"here"`)
	_, err = here.Swap(t.Context(), 7, []byte("x"))
	require.ErrorIs(t, err, ErrConflict, "there is none")

	mine, created, err := here.Bootstrap(t.Context(), []byte("mine"))
	require.NoError(t, err)
	require.True(t, created)
	_, err = there.Load(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	_, created, err = there.Bootstrap(t.Context(), []byte("theirs"))
	require.NoError(t, err)
	require.True(t, created)

	version, err := here.Swap(t.Context(), mine.Version, []byte("mine 2"))
	require.NoError(t, err)
	_, err = here.Swap(t.Context(), mine.Version, []byte("mine 3"))
	require.ErrorIs(t, err, ErrConflict)
	present, err := here.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, Document{Value: []byte("mine 2"), Version: version}, present)
	theirs, err := there.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, "theirs", string(theirs.Value))
}

func TestDescriptionsHaveABound(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, _ := open(t, testConfig(etcd.Endpoint()))
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
}
