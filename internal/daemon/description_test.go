package daemon

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/topology"
)

// Clients ask for the description every few seconds. An unchanged one is neither encoded nor parsed again,
// and a changed one is.
func TestUnchangedDescriptionCostsLittle(t *testing.T) {
	file := DefaultFile()
	spec, err := topology.ParseSpec(addressedSpec(&file))
	require.NoError(t, err)
	spec.Version = 1
	d, err := describe(spec)
	require.NoError(t, err)
	require.Equal(t, string(spec.YAML()), d.published())
	require.Zero(t, testing.AllocsPerRun(10, func() { d.published() }))

	a := &Access{cfg: AccessConfig{Logger: slog.New(slog.DiscardHandler)}}
	answer := Description{Version: 1, Spec: d.published()}
	require.NoError(t, a.take(&answer))
	same := answer
	same.Delegates = []uint16{1}
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { require.NoError(t, a.take(&same)) }), 5.0)
	require.Equal(t, client.PlainGrants, a.grants(1))

	plan := a.Cluster()
	spec.Replace(plan, plan.Partitions[0].Replicas[0].Process, "")
	require.NoError(t, a.take(&Description{Version: 2, Spec: string(spec.YAML())}))
	require.Len(t, a.Cluster().Replaced, 1)
	require.NoError(t, a.take(&same), "an old answer")
	require.EqualValues(t, 2, a.Version())
}
