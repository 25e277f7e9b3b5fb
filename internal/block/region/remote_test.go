package region_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
)

// A client that knew the servers of the start sees the blocks of later servers, and continues when all
// servers of the start have left.
func TestRemoteLearnsTheServers(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	client := r.Client(t)
	members := r.Node(1).Members()
	members.Version++
	members.Servers = append(members.Servers, region.Server{ID: 4, Datacenter: "dc4"})
	r.Add(t, 4, members, blocktest.NewMemory(blocktest.Big))
	require.NoError(t, r.Node(1).SetMembers(t.Context(), members))

	id, data := blocktest.Block(1, 5000)
	require.NoError(t, r.Disks[4].Put(t.Context(), block.New(id, data)))
	ids, err := blocktest.Collect(client.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Equal(t, []block.ID{id}, ids)
	missing, _ := blocktest.Block(2, 1)
	sizes, err := client.Sizes(t.Context(), []block.ID{missing, id})
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 5000}, sizes)
	total, _, _, err := client.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4*blocktest.Big, total)

	for server := range r.Disks {
		if server < 4 {
			r.SetDown(server, true)
		}
	}
	blocktest.RequireBlock(t, client, id, data)
	sizes, err = client.Sizes(t.Context(), []block.ID{id})
	require.NoError(t, err, "some answer")
	require.Equal(t, []uint32{5000}, sizes)
	r.SetDown(4, true)
	_, err = client.Sizes(t.Context(), []block.ID{id})
	require.ErrorIs(t, err, block.ErrUnavailable)
}
