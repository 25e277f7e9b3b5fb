package registry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

func TestMarksStay(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	r, _ := open(t, testConfig(etcd.Endpoint()))
	marked := func(name string) bool {
		yes, err := r.Marked(t.Context(), name)
		require.NoError(t, err)
		return yes
	}
	require.False(t, marked("alpha"))
	require.NoError(t, r.Mark(t.Context(), "alpha"))
	require.True(t, marked("alpha"))
	require.False(t, marked("alph"))
	first, err := raw(t, etcd.Endpoint()).Get(t.Context(), r.markKey("alpha"))
	require.NoError(t, err)
	require.NoError(t, r.Mark(t.Context(), "alpha"))
	again, err := raw(t, etcd.Endpoint()).Get(t.Context(), r.markKey("alpha"))
	require.NoError(t, err)
	require.Equal(t, first.Kvs[0].ModRevision, again.Kvs[0].ModRevision, "the time of the first start stays")
	etcd.Kill()
	etcd.Restart(t)
	require.True(t, marked("alpha"))

	require.ErrorContains(t, r.Mark(t.Context(), "a/b"), `server "a/b"`)
	_, err = r.Marked(t.Context(), "")
	require.ErrorContains(t, err, `server ""`)
}

func TestRemoveTakesOneClusterThatIsNotLive(t *testing.T) {
	etcd := registrytest.Start(t)
	noLeaks(t)
	config := testConfig(etcd.Endpoint())
	here, _ := open(t, config)
	config.Cluster = "here2"
	there, _ := open(t, config)
	require.ErrorIs(t, here.Remove(t.Context()), ErrNotFound)
	for _, r := range []*Etcd{here, there} {
		_, _, err := r.Bootstrap(t.Context(), []byte("value"))
		require.NoError(t, err)
		require.NoError(t, r.Mark(t.Context(), "alpha"))
	}
	require.NoError(t, there.Claim(t.Context(), alpha), "which does not keep the other cluster")
	_, stop := announce(t, here, alpha)
	announced := Presence{Name: "beta", Instance: "cafe"}
	_, stopToo := announce(t, here, announced)
	awaitAlive(t, here, alpha, announced)
	err := here.Remove(t.Context())
	require.ErrorIs(t, err, ErrLive)
	require.ErrorContains(t, err, "alpha, beta")
	_, err = here.Load(t.Context())
	require.NoError(t, err)

	stop()
	stopToo()
	require.NoError(t, here.Remove(t.Context()))
	_, err = here.Load(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	marked, err := here.Marked(t.Context(), "alpha")
	require.NoError(t, err)
	require.False(t, marked)
	_, err = there.Load(t.Context())
	require.NoError(t, err)
	awaitAlive(t, there, alpha)
	_, created, err := here.Bootstrap(t.Context(), []byte("anew"))
	require.NoError(t, err)
	require.True(t, created)
}
