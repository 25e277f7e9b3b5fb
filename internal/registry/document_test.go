package registry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

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
