package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func addressed() Spec {
	return Spec{
		Name: "test", Regions: []Region{"a", "b", "c"}, Datacenters: 1, Replicas: 1, Copies: 1,
		Addresses: map[string]string{"aa": "10.0.0.1:7420", "ba": "host-b:7420", "ca": "[::1]:7420"},
	}
}

func TestAddresses(t *testing.T) {
	s := addressed()
	c, err := s.Plan()
	require.NoError(t, err)
	hosts := c.Hosts()
	require.Equal(t, "host-b:7420", hosts[c.Servers[1].Storage].Address)
	require.Equal(t, "[::1]:7420", hosts[c.Partitions[3].Replicas[0].Process].Address)

	read, err := ParseSpec(s.YAML())
	require.NoError(t, err)
	require.Equal(t, s, read)

	for name, c := range map[string]struct{ server, address, want string }{
		"missing": {"ca", "", "server ca has none"},
		"unknown": {"zz", "h:1", `no server "zz": give one of aa, ba, ca`},
		"no port": {"aa", "10.0.0.1", "give host:port"},
		"no host": {"aa", ":7420", "give host:port"},
		"port":    {"aa", "h:70000", "1 to 65535"},
		"twice":   {"aa", "host-b:7420", "is also that of aa"},
	} {
		s := addressed()
		if s.Addresses[c.server] = c.address; c.address == "" {
			delete(s.Addresses, c.server)
		}
		_, err := s.Plan()
		require.ErrorContains(t, err, c.want, name)
	}
	s.Name = "a/b"
	require.ErrorContains(t, s.Validate(), "name:")
}

// A server keeps its roles at another address, whether it is an original server or joined later.
func TestRelocate(t *testing.T) {
	s := Spec{Regions: []Region{"a"}, Datacenters: 1, Replicas: 1, Copies: 1}
	s.Relocate("aa", "h:1")
	c, err := s.Plan()
	require.NoError(t, err)
	require.Equal(t, "h:1", c.Server("aa").Address)
	_, err = s.JoinStorage(c, "a")
	require.NoError(t, err)
	s.Relocate("ab", "h:2")
	s.Relocate("aa", "h:3")
	require.NoError(t, s.LeaveStorage(must(t, &s), "aa"))
	s.Relocate("aa", "h:4")
	c = must(t, &s)
	require.Equal(t, "h:4", c.Server("aa").Address)
	require.Equal(t, StorageLeaving, c.Server("aa").State)
	require.Equal(t, "h:2", c.Server("ab").Address)
}

func must(t *testing.T, s *Spec) *Cluster {
	c, err := s.Plan()
	require.NoError(t, err)
	return c
}

// Adopt takes over the history of a cluster, accepts moved servers, and refuses another cluster.
func TestAdopt(t *testing.T) {
	was := Spec{Regions: []Region{"a"}, Datacenters: 3, Replicas: 1, Copies: 1, Addresses: map[string]string{"aa": "h:1", "ab": "h:2", "ac": "h:3"}}
	c, err := was.Plan()
	require.NoError(t, err)
	was.Version = 7
	old := c.Partitions[1].Replicas[0]
	now := was
	replacement := was.Replace(c, old.Process, "ab")

	now.Addresses = map[string]string{"aa": "10.9.9.9:1", "ab": "h:2", "ac": "h:3"}
	require.NoError(t, now.Adopt(was))
	require.EqualValues(t, 7, now.Version)
	c, err = now.Plan()
	require.NoError(t, err)
	require.Equal(t, "10.9.9.9:1", c.Server("aa").Address)
	require.Equal(t, Replica{Process: replacement, Seat: old.Seat, Server: "ab", Region: "a"}, c.Partitions[1].Replicas[0])

	other := was
	other.Copies = 2
	require.ErrorContains(t, other.Adopt(was), "another cluster")
	was.Replaced[0].Server = "zz"
	_, err = was.Plan()
	require.ErrorContains(t, err, `on server "zz"`)
}
