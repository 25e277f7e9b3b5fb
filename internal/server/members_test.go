package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/topology"
)

// A server starts with the newer members of the plan and of its file, and refuses a damaged file.
func TestMembersAreTheNewest(t *testing.T) {
	spec := topology.Spec{Regions: []topology.Region{"us-west-2"}, Datacenters: 3, Replicas: 3, Copies: 2}
	plan, err := spec.Plan()
	require.NoError(t, err)
	dir, first := t.TempDir(), Members(plan, "us-west-2")
	require.EqualValues(t, 1, first.Version)
	require.Len(t, first.Servers, 3)

	learnt := region.Members{Version: 2, Servers: append(first.Servers, region.Server{ID: 99, Datacenter: "d"})}
	require.NoError(t, saveMembers(dir, learnt))
	got, err := newestMembers(dir, first)
	require.NoError(t, err)
	require.Equal(t, learnt, got)

	path := filepath.Join(dir, membersFile)
	for _, damaged := range []string{"", "{}", `{"version": 3, "servers": [{"id": 1}, {"id": 1}]}`} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		got, err = newestMembers(dir, first)
		require.NoError(t, err)
		require.Equal(t, learnt, got, "from the copy")
		for _, p := range []string{path, path + ".copy"} {
			require.NoError(t, os.WriteFile(p, []byte(damaged), 0o600))
		}
		_, err = newestMembers(dir, first)
		require.ErrorContains(t, err, "replace it by the file of another server")
		require.NoError(t, saveMembers(dir, learnt))
	}
}
