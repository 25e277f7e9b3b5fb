package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// grow adds a partition to a region, and makes it active.
func (s *Spec) grow(t *testing.T, r Region, servers ...string) Partition {
	t.Helper()
	c, err := s.Plan()
	require.NoError(t, err)
	p, err := s.AddPartition(c, r, servers)
	require.NoError(t, err)
	s.Advance(PartitionStarted)
	s.Advance(PartitionActive)
	return *p
}

// A partition that is added gets the next number and new processes; nothing else changes, and the description
// holds all of it.
func TestAddPartition(t *testing.T) {
	s := DefaultSpec()
	before, err := s.Plan()
	require.NoError(t, err)
	p, err := s.AddPartition(before, "us-east-1", nil)
	require.NoError(t, err)
	require.EqualValues(t, len(before.Partitions), p.ID)
	require.Equal(t, "/us-east-1#2", p.Path)
	require.Len(t, p.Replicas, 3)

	planned, err := s.Plan()
	require.NoError(t, err)
	require.Equal(t, before.Partitions, planned.Partitions, "its replicas do not run yet")
	require.Equal(t, append(before.Groups(), p.Group()), planned.Groups(), "its group is known")
	require.Equal(t, p, planned.Adding())
	require.Equal(t, []uint16{2}, planned.Shards("us-east-1"))
	_, err = s.AddPartition(planned, "eu-west-1", nil)
	require.ErrorContains(t, err, "partition 4 (/us-east-1#2) is being added")

	s.Advance(PartitionStarted)
	starting, err := s.Plan()
	require.NoError(t, err)
	require.Len(t, starting.Partitions, 5)
	require.Equal(t, []uint16{2}, starting.Shards("us-east-1"), "no directory goes there")
	s.Advance(PartitionActive)
	first, err := s.Plan()
	require.NoError(t, err)
	require.Nil(t, first.Adding())
	require.Equal(t, []uint16{2, 4}, first.Shards("us-east-1"))

	second := s.grow(t, "", "us-west-2c", "us-east-1c", "eu-west-1c")
	s.grow(t, "us-east-1")
	c, err := s.Plan()
	require.NoError(t, err)
	require.Equal(t, first.Partitions, c.Partitions[:5])
	require.Equal(t, 4, c.Founded)
	require.Equal(t, "/#2", second.Path)
	require.Equal(t, []uint16{0, 5}, c.Shards(""))
	require.Equal(t, []uint16{2, 4, 6}, c.Shards("us-east-1"))
	require.NoError(t, c.Crowded())
	require.Equal(t, []uint16{2, 4}, c.BirthShards(&c.Partitions[4]), "as when it was the newest")
	require.Equal(t, []uint16{2}, c.BirthShards(&c.Partitions[2]))
	require.Equal(t, s.Replace(c, c.Partitions[4].Replicas[0].Process, "us-east-1b")-1, c.Partitions[6].Replicas[2].Process, "numbers of processes are not used again")

	read, err := ParseSpec(s.YAML())
	require.NoError(t, err)
	require.Equal(t, s, read)
	fresh := DefaultSpec()
	require.NoError(t, fresh.Adopt(s))
	require.Equal(t, s.Added, fresh.Added)
}

func TestAddPartitionRefused(t *testing.T) {
	s := DefaultSpec()
	c, err := s.Plan()
	require.NoError(t, err)
	for want, ask := range map[string]struct {
		region  Region
		servers []string
	}{
		`no region "mars"`: {region: "mars"},
		"no server":        {"us-east-1", []string{"mars"}},
		"is of region":     {"us-east-1", []string{"us-west-2a"}},
		"given twice":      {"us-east-1", []string{"us-east-1a", "us-east-1a", "us-east-1b"}},
		"odd number":       {"us-east-1", []string{"us-east-1a", "us-east-1b"}},
	} {
		_, err := s.AddPartition(c, ask.region, ask.servers)
		require.ErrorContains(t, err, want)
		require.Empty(t, s.Added)
	}
	for range maxShards - 1 {
		s.grow(t, "us-east-1")
	}
	c, err = s.Plan()
	require.NoError(t, err)
	_, err = s.AddPartition(c, "us-east-1", nil)
	require.ErrorContains(t, err, "which is the maximum")

	for want, added := range map[string][]Addition{
		"is planned, and there is another one behind it": {{Region: "us-east-1", State: PartitionPlanned, Replicas: s.Added[0].Replicas}, s.Added[1]},
		"unknown state":             {{Region: "us-east-1", State: "gone", Replicas: s.Added[0].Replicas}},
		"which the cluster has not": {{Region: "mars", Replicas: s.Added[0].Replicas}},
		"no server":                 {{Region: "us-east-1", Replicas: []AddedReplica{{Process: 99, Server: "mars"}}}},
	} {
		bad := DefaultSpec()
		bad.Added = added
		_, err := bad.Plan()
		require.ErrorContains(t, err, want)
	}
}

// AddMissing gives a cluster the partitions that were added to another one.
func TestAddMissing(t *testing.T) {
	s := DefaultSpec()
	s.grow(t, "us-east-1", "us-east-1c", "us-east-1b", "us-east-1a")
	s.grow(t, "")
	c, err := s.Plan()
	require.NoError(t, err)
	var paths []string
	for _, p := range c.Partitions {
		paths = append(paths, p.Path)
	}
	again := DefaultSpec()
	require.NoError(t, again.AddMissing(paths))
	made, err := again.Plan()
	require.NoError(t, err)
	require.Nil(t, made.Adding())
	for i, p := range made.Partitions {
		require.Equal(t, paths[i], p.Path)
	}
	require.ErrorContains(t, again.AddMissing(append(paths, "/mars#2")), `no region "mars"`)
}
