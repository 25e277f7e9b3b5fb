package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/topology"
)

// A server starts with the newest members of the cluster's file and what it has learnt, and refuses a damaged file.
func TestMembersAreTheNewest(t *testing.T) {
	spec := topology.Spec{Regions: []topology.Region{"us-west-2"}, Datacenters: 3, Replicas: 3, Copies: 2}
	plan, err := spec.Plan()
	require.NoError(t, err)
	s := &Server{cfg: Config{Cluster: plan, Dir: t.TempDir()}}
	first, err := s.members("us-west-2")
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Version)
	require.Len(t, first.Servers, 3)

	learnt := block.Members{Version: 2, Servers: append(first.Servers, block.Server{ID: 99, Datacenter: "d"})}
	require.NoError(t, s.saveMembers(learnt))
	got, err := s.members("us-west-2")
	require.NoError(t, err)
	require.Equal(t, learnt, got)

	path := filepath.Join(s.cfg.Dir, membersFile)
	for _, damaged := range []string{"", "{}", `{"version": 3, "servers": [{"id": 1}, {"id": 1}]}`} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		_, err = s.members("us-west-2")
		require.ErrorContains(t, err, "replace it by the file of another server")
	}
}
