package topology

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestPlanOfTheThesis(t *testing.T) {
	spec := DefaultSpec()
	c, err := spec.Plan()
	require.NoError(t, err)
	require.Len(t, c.Servers, 9)
	require.Len(t, c.Partitions, 4)

	global := c.Partitions[0]
	require.Equal(t, "/", global.Path)
	require.Equal(t, spec.Regions, global.Regions(), "the global partition has a replica in each region")
	require.Len(t, global.Replicas, 3)

	local := c.Partitions[2]
	require.Equal(t, "/us-east-1", local.Path)
	require.Equal(t, []Region{"us-east-1"}, local.Regions())
	datacenters := map[string]bool{}
	for _, r := range local.Replicas {
		datacenters[c.Server(r.Server).Datacenter] = true
	}
	require.Len(t, datacenters, 3, "one replica a datacenter")
	require.Equal(t, &c.Partitions[2], c.Of(local.Root()))
	require.Nil(t, c.Of(posix.MakeIno(9, 1)))
}

func TestPlanIsStableAndOdd(t *testing.T) {
	for _, regions := range [][]Region{{"a"}, {"a", "b"}, {"a", "b", "c", "d"}} {
		spec := Spec{Regions: regions, Datacenters: 2, Replicas: 3, Copies: 2}
		one, err := spec.Plan()
		require.NoError(t, err)
		two, err := spec.Plan()
		require.NoError(t, err)
		require.Equal(t, one, two)
		require.Equal(t, 1, len(one.Partitions[0].Replicas)%2)
		require.Equal(t, regions, one.Partitions[0].Regions())
	}
}

func TestParseSpecNamesLineAndKey(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"typo":      {"replicas: 3\nregons: [a]\n", "line 2: unknown key \"regons\""},
		"type":      {"replicas: many\n", "line 1: `many` has the wrong type here: give a number"},
		"even":      {"replicas: 2\n", "replicas: 2: give 1, 3 or 5"},
		"copies":    {"copies: 4\n", "copies: 4: give a number from 1 to 3, the number of datacenters"},
		"name":      {"regions: [a/b]\n", `regions: "a/b"`},
		"duplicate": {"regions: [a, a]\n", `regions: "a" is listed twice`},
		"syntax":    {"regions: [a\n", "line 1"},
	} {
		_, err := ParseSpec([]byte(c.text))
		require.ErrorContains(t, err, c.want, name)
	}
	spec, err := ParseSpec(nil)
	require.NoError(t, err)
	require.Equal(t, DefaultSpec(), spec)
	again, err := ParseSpec(spec.YAML())
	require.NoError(t, err)
	require.Equal(t, spec, again)
}

func TestDelayIsSymmetric(t *testing.T) {
	for _, a := range known {
		require.Zero(t, Delay(a, a))
		for _, b := range known {
			require.Equal(t, Delay(a, b), Delay(b, a))
			require.True(t, a == b || Delay(a, b) >= 10*time.Millisecond, "%s %s", a, b)
		}
	}
	require.Equal(t, 70*time.Millisecond, Delay("eu-west-1", "us-west-2"))
	require.Equal(t, elsewhere, Delay("eu-west-1", "moon"))
}

func TestNearest(t *testing.T) {
	spec := DefaultSpec()
	c, err := spec.Plan()
	require.NoError(t, err)
	near := Nearest("eu-west-1", c.Partitions[0].Replicas)
	require.Equal(t, []Region{"eu-west-1", "us-east-1", "us-west-2"}, []Region{near[0].Region, near[1].Region, near[2].Region})
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte("regions: [a, b]\ndatacenters: 3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		_, err = spec.Plan()
		require.NoError(t, err, "what validates can be planned")
	})
}

func TestCrowded(t *testing.T) {
	for replicas, crowded := range map[int]bool{1: false, 3: true} {
		s := Spec{Regions: []Region{"us-west-2", "us-east-1", "eu-west-1"}, Datacenters: 1, Replicas: replicas, Copies: 1}
		plan, err := s.Plan()
		require.NoError(t, err)
		require.Equal(t, crowded, plan.Crowded() != nil)
	}
}

func TestReplacedProcesses(t *testing.T) {
	s := DefaultSpec()
	plan, err := s.Plan()
	require.NoError(t, err)
	born := plan.Partitions[1].Replicas[0].Process
	first := s.Replace(plan, born, "")
	second := s.Replace(plan, first, "")
	after, err := s.Plan()
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.Equal(t, Replica{Process: second, Seat: born, Server: plan.Partitions[1].Replicas[0].Server, Region: "us-west-2"}, after.Partitions[1].Replicas[0])
	require.Equal(t, plan.Groups(), after.Groups(), "groups are named as they were born")
	require.Equal(t, []multicast.Replacement{{Old: born, New: first}, {Old: first, New: second}}, after.Replacements(&after.Partitions[1]))
	require.Empty(t, after.Replacements(&after.Partitions[0]))
}

// TestShards: further partitions of a region come behind the first ones of all regions, so that their numbers
// and processes are those of a cluster without them; their leaders are on different servers.
func TestShards(t *testing.T) {
	plain := DefaultSpec()
	one, err := plain.Plan()
	require.NoError(t, err)
	spec := DefaultSpec()
	spec.Partitions, spec.GlobalPartitions = 3, 2
	c, err := spec.Plan()
	require.NoError(t, err)
	require.NoError(t, c.Crowded())
	require.Equal(t, one.Partitions, c.Partitions[:4])
	require.Equal(t, one.Servers, c.Servers)
	require.Len(t, c.Partitions, 3*3+2)
	require.Equal(t, []uint16{0, 4}, c.Shards(""))
	require.Equal(t, []uint16{2, 6, 9}, c.Shards("us-east-1"))
	require.Equal(t, "/us-east-1#3", c.Partitions[9].Path)
	leaders := map[string]bool{}
	for _, p := range c.Shards("us-east-1") {
		require.Equal(t, []Region{"us-east-1"}, c.Partitions[p].Regions())
		leaders[c.Partitions[p].Replicas[0].Server] = true
	}
	require.Len(t, leaders, 3)

	for want, change := range map[string]func(*Spec){
		"partitions: 17": func(s *Spec) { s.Partitions = 17 }, "global_partitions: -1": func(s *Spec) { s.GlobalPartitions = -1 },
	} {
		s := DefaultSpec()
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
	}
	same := plain
	same.Partitions = 1
	require.NoError(t, same.Adopt(plain), "1 is the default")
	require.ErrorContains(t, spec.Adopt(plain), "another cluster")
}
