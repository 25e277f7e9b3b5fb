package topology

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMulticastKeys(t *testing.T) {
	s, err := ParseSpec([]byte("regions: [west, east]\nmulticast: {local: tram, fabric: soft}\n"))
	require.NoError(t, err)
	require.Equal(t, Multicast{Local: LocalTRAM, Fabric: MemorySoft}, s.Multicast)
	again, err := ParseSpec(s.YAML())
	require.NoError(t, err)
	require.Equal(t, s.Multicast, again.Multicast)
	c, err := s.Plan()
	require.NoError(t, err)
	for i := range c.Partitions {
		p := &c.Partitions[i]
		require.Equal(t, p.Region != "", c.OrderOf(p) == LocalTRAM, "PrimCast orders the global partition, between regions")
	}

	s, err = ParseSpec([]byte("regions: [west]\nmulticast: {local: tram, fabric: verbs}\n"))
	require.NoError(t, err)
	c, err = s.Plan()
	require.NoError(t, err)
	require.Equal(t, LocalTRAM, c.OrderOf(&c.Partitions[0]), "all replicas are in one region")
	require.Equal(t, MemoryVerbs, c.Multicast.Fabric)

	for text, says := range map[string]string{
		"regions: [west]\nmulticast:\n  local: paxos\n":  `line 3: multicast: local: "paxos": give primcast or tram`,
		"regions: [west]\nmulticast:\n  fabric: rdma\n":  `line 3: multicast: fabric: "rdma": give auto`,
		"regions: [west]\nmulticast:\n  local: [tram]\n": "line 3: multicast: local: give primcast or tram",
		"regions: [west]\nmulticast:\n  remote: tram\n":  `unknown key "remote"`,
		"regions: [west]\nmulticast: {fabric: {a: b}}\n": "line 2: multicast: fabric: give auto",
	} {
		_, err := ParseSpec([]byte(text))
		require.ErrorContains(t, err, says)
	}
}

// A cluster cannot change its orders. The default values of the key are equal to an absent key.
func TestMulticastIsKept(t *testing.T) {
	plain := DefaultSpec()
	require.NotContains(t, string(plain.YAML()), "multicast", "versions before the key read the description")
	said := plain
	said.Multicast = Multicast{Local: LocalPrimCast, Fabric: MemoryAuto}
	require.NoError(t, said.Adopt(plain))
	require.Equal(t, plain.Multicast, said.Multicast)
	changed := plain
	changed.Multicast.Local = LocalTRAM
	err := changed.Adopt(plain)
	require.ErrorContains(t, err, "local: primcast")
	require.True(t, strings.HasPrefix(err.Error(), "multicast: "), err)
}
