package objects_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
)

// config returns the configuration of a store on a test's server.
func config(s *objectstest.Server, prefix string) objects.Config {
	return objects.Config{
		Endpoint: s.Endpoint(), Bucket: objectstest.Bucket, Prefix: prefix, Region: "us-east-1", PathStyle: true,
		Cluster: "one", Timeout: 5 * time.Second,
	}
}

// open opens a store that the test closes.
func open(t *testing.T, c objects.Config) *objects.Store {
	s, err := objects.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	blocktest.TestStore(t, func(t *testing.T) block.Store { return open(t, config(server, t.Name())) })
}

func TestSizes(t *testing.T) {
	s := open(t, config(objectstest.Start(t, t.TempDir()), "sizes"))
	var ids []block.ID
	for i, size := range []int{10, 70000, 1} {
		id, data := blocktest.Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		ids = append(ids, id)
	}
	missing, _ := blocktest.Block(3, 1)
	sizes, err := s.Sizes(t.Context(), []block.ID{ids[2], missing, ids[0], ids[1]})
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 0, 10, 70000}, sizes)
	sizes, err = s.Sizes(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, sizes)
}
