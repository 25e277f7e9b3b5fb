package region_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
)

// Each server returns the lengths of blocks that it does not keep, as long as one owner of each answers.
func TestLengths(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 9)
	client := r.Client(t)
	var ids []block.ID
	var want []uint32
	for i := range 20 {
		id, data := blocktest.Block(i, 100+i)
		require.NoError(t, client.Put(t.Context(), block.New(id, data)))
		ids, want = append(ids, id), append(want, uint32(100+i))
	}
	missing, _ := blocktest.Block(99, 1)
	ids, want = append(ids, missing), append(want, 0)
	for server := range r.Disks {
		got, err := r.Node(server).Lengths(t.Context(), ids)
		require.NoError(t, err)
		require.Equal(t, want, got, "server %d", server)
	}
	r.SetDown(2, true)
	r.SetDown(3, true)
	got, err := r.Node(1).Lengths(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// A client learns which servers may have a block.
	got, err = client.Lengths(t.Context(), ids)
	require.Error(t, err)
	require.Equal(t, want, got)
	r.SetDown(2, false)
	r.SetDown(3, false)
	got, err = client.Lengths(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
