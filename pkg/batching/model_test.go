package batching

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTable2 compares with the paper's Table 2: cluster, requests of 128 bytes, times in milliseconds.
func TestTable2(t *testing.T) {
	for _, row := range []struct {
		batch                        int
		perRequest, cpu, link, takes float64
		cpuWindow, linkWindow        float64
	}{
		{128, 0.52, 0.52, 0.00, 0.52, 1.00, 211.73},
		{256, 0.30, 0.60, 0.00, 0.60, 1.00, 124.18},
		{512, 0.19, 0.77, 0.01, 0.77, 1.00, 79.52},
		{1 << 10, 0.14, 1.09, 0.02, 1.10, 1.00, 56.97},
		{2 << 10, 0.11, 1.75, 0.04, 1.76, 1.01, 45.63},
		{4 << 10, 0.10, 3.06, 0.08, 3.07, 1.01, 39.95},
		{8 << 10, 0.09, 5.67, 0.15, 5.71, 1.01, 37.11},
		{16 << 10, 0.09, 10.90, 0.31, 10.98, 1.01, 35.68},
		{32 << 10, 0.08, 21.36, 0.62, 21.51, 1.01, 34.97},
		{64 << 10, 0.08, 42.28, 1.23, 42.58, 1.01, 34.62},
	} {
		c := Cluster()
		p, err := Predict(c.System, c.Workload(128), row.batch/128)
		require.NoError(t, err)
		ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
		require.InDelta(t, row.perRequest, ms(p.CPU)/float64(p.Requests), 0.0061, row.batch)
		require.InDelta(t, row.cpu, ms(p.CPU), 0.0061, row.batch)
		require.InDelta(t, row.link, ms(p.Network), 0.0061, row.batch)
		require.InDelta(t, row.takes, ms(p.Duration), 0.0061, row.batch)
		require.InDelta(t, row.cpuWindow, p.CPUWindow, 0.0061, row.batch)
		require.InEpsilon(t, row.linkWindow, p.LinkWindow, 0.02, row.batch)
		require.Equal(t, CPU, p.Bottleneck)
	}
}

// windows is a row of the paper's Tables 3 and 4.
type windows struct {
	request, k int
	cpu, link  float64
	throughput float64
}

func requireRows(t *testing.T, s Setting, rows []windows) {
	for _, row := range rows {
		p, err := Predict(s.System, s.Workload(row.request), row.k)
		require.NoError(t, err)
		require.InDelta(t, row.cpu, p.CPUWindow, 0.015*row.cpu+0.01, "%+v", row)
		require.InDelta(t, row.link, p.LinkWindow, 0.02*row.link+0.01, "%+v", row)
		require.InEpsilon(t, row.throughput, p.Throughput, 0.02, "%+v", row)
	}
}

func TestTable3(t *testing.T) {
	requireRows(t, Cluster(), []windows{
		{128, 1, 1, 211.73, 1916},
		{128, 2, 1, 124.18, 3313},
		{128, 8, 1, 56.97, 7313},
		{128, 256, 1, 34.97, 11983},
		{128, 512, 1, 34.62, 12108},
		{1 << 10, 1, 1.01, 31.54, 1878},
		{1 << 10, 2, 1.01, 18.64, 3202},
		{1 << 10, 8, 1.03, 8.93, 6791},
		{1 << 10, 256, 1.04, 5.79, 10644},
		{1 << 10, 512, 1.05, 5.74, 10742},
		{8 << 10, 1, 1.05, 4.92, 1625},
		{8 << 10, 2, 1.08, 3.25, 2530},
		{8 << 10, 8, 1.14, 2, 4344},
		{8 << 10, 32, 1.17, 1.68, 5293},
		{8 << 10, 64, 1.17, 1.63, 5493},
	})
}

// TestTable4: the row that the paper's Table 4 calls 32 KB (w^CPU 1.47) is that of 512 requests, 64 KB.
func TestTable4(t *testing.T) {
	requireRows(t, Emulab(), []windows{
		{128, 1, 30.88, 833.48, 308},
		{128, 2, 28.77, 422.94, 574},
		{128, 8, 20.45, 107.58, 1620},
		{128, 128, 3.38, 7.68, 3765},
		{128, 512, 1.47, 3.12, 4032},
		{1 << 10, 1, 28.89, 119.01, 286},
		{1 << 10, 2, 25.54, 60.12, 502},
		{1 << 10, 8, 15.42, 15.8, 1155},
		{1 << 10, 128, 3.16, 1.93, 1184},
		{1 << 10, 256, 2.68, 1.6, 1184},
		{8 << 10, 1, 19.47, 16, 150},
		{8 << 10, 2, 14.24, 8.5, 150},
		{8 << 10, 8, 6.72, 2.88, 150},
		{8 << 10, 16, 4.84, 1.94, 150},
		{8 << 10, 32, 3.8, 1.47, 150},
	})
}

// TestChooseFor: outstanding requests that fill one instance leave a batch of one; over a distance, a
// batch is small enough that the others fill the round trip, and large enough to share the costs of an
// instance.
func TestChooseFor(t *testing.T) {
	_, err := ChooseFor(Emulab().System, Emulab().Workload(128), 0)
	require.ErrorContains(t, err, "at least 1 is needed")
	s := Emulab()
	s.System.Replicas = 1
	_, err = ChooseFor(s.System, s.Workload(128), 10)
	require.ErrorContains(t, err, "at least 2 are needed")
	s = Emulab()
	p, err := ChooseFor(s.System, s.Workload(128), 1)
	require.NoError(t, err)
	require.Equal(t, 1, p.Requests)
	require.InEpsilon(t, 1/(p.CPU+p.Network+100*time.Millisecond).Seconds(), p.Throughput, 0.001)
	p, err = ChooseFor(s.System, s.Workload(1<<10), 1200)
	require.NoError(t, err)
	require.InDelta(t, 78, p.Requests, 1)
	require.InEpsilon(t, 1184, p.Throughput, 0.01)
	require.Less(t, p.Requests*p.Window, 1200)
}
