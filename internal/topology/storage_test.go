package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func names(servers []Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Name)
	}
	return all
}

func TestStorageChanges(t *testing.T) {
	s := DefaultSpec()
	plan := func() *Cluster {
		c, err := s.Plan()
		require.NoError(t, err)
		parsed, err := ParseSpec(s.YAML())
		require.NoError(t, err)
		again, err := parsed.Plan()
		require.NoError(t, err)
		require.Equal(t, c, again, "it is written down in full")
		return c
	}
	before := plan()
	require.EqualValues(t, 1, before.StorageVersion("eu-west-1"))

	joined, err := s.JoinStorage(before, "eu-west-1")
	require.NoError(t, err)
	require.Equal(t, "eu-west-1d", joined.Server)
	c := plan()
	require.Equal(t, []string{"eu-west-1a", "eu-west-1b", "eu-west-1c", "eu-west-1d"}, names(c.Storage("eu-west-1")))
	require.EqualValues(t, 2, c.StorageVersion("eu-west-1"))
	require.EqualValues(t, 1, c.StorageVersion("us-east-1"))
	require.Equal(t, before.Partitions, c.Partitions, "replicas stay where they are")
	require.Equal(t, before.Servers, c.Servers[:len(before.Servers)], "and nobody gets another number")
	require.Equal(t, s.Replace(c, c.Partitions[0].Replicas[0].Process, ""), joined.Process+1)

	require.NoError(t, s.LeaveStorage(c, "eu-west-1a"))
	c = plan()
	require.Equal(t, StorageLeaving, c.Server("eu-west-1a").State)
	require.Len(t, c.Storage("eu-west-1"), 4)
	require.ErrorContains(t, s.LeaveStorage(c, "eu-west-1a"), "is leaving already")
	s.LeftStorage("eu-west-1a")
	c = plan()
	require.Equal(t, []string{"eu-west-1b", "eu-west-1c", "eu-west-1d"}, names(c.Storage("eu-west-1")))
	require.EqualValues(t, 4, c.StorageVersion("eu-west-1"))

	again, err := s.JoinStorage(c, "eu-west-1")
	require.NoError(t, err)
	require.Equal(t, "eu-west-1e", again.Server, "names are not used again")
}

func TestStorageChangesThatCannotBe(t *testing.T) {
	s := DefaultSpec()
	c, err := s.Plan()
	require.NoError(t, err)
	_, err = s.JoinStorage(c, "mars")
	require.ErrorContains(t, err, `no region "mars"`)
	require.ErrorContains(t, s.LeaveStorage(c, "mars-a"), `no server "mars-a"`)
	require.NoError(t, s.LeaveStorage(c, "us-west-2a"))
	c, err = s.Plan()
	require.NoError(t, err)
	require.ErrorContains(t, s.LeaveStorage(c, "us-west-2b"), "keeps 2 copies")
	for want, changes := range map[string][]StorageChange{
		`server "x" of region ""`: {{Server: "x"}},
		`cannot become "left"`:    {{Server: "us-west-2a", To: StorageLeft}},
		`cannot become ""`:        {{Server: "us-west-2a", Region: "us-west-2", Process: 99}},
		"no server of region":     {{Server: "us-west-2a", To: StorageLeaving}, {Server: "us-west-2b", To: StorageLeaving}, {Server: "us-west-2c", To: StorageLeaving}},
		"also that of":            {{Server: "us-west-2d", Region: "us-west-2", Process: 1}},
	} {
		s := DefaultSpec()
		s.StorageChanges = changes
		_, err := s.Plan()
		require.ErrorContains(t, err, want)
	}
}
