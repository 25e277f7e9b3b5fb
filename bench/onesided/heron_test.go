package onesided

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The curves have the same order as in the figures of section V of the Heron paper.
func TestHeronShapes(t *testing.T) {
	c := DefaultHeron()
	c.Quick()
	r, err := RunHeron(t.Context(), c)
	require.NoError(t, err)
	rate := map[string]map[int]float64{}
	for _, x := range r.Throughput {
		if rate[x.Workload] == nil {
			rate[x.Workload] = map[int]float64{}
		}
		rate[x.Workload][x.Warehouses] = x.PerSecond
	}
	for _, n := range []int{2, 4} {
		require.Greater(t, rate["tram"][n], rate["null"][n], "coordination costs (Figure 4)")
		require.Greater(t, rate["null"][n], rate["tpcc"][n], "execution costs (Figure 4)")
		require.Greater(t, rate["local"][n], rate["tpcc"][n], "remote rows cost (Figure 4)")
	}
	require.Greater(t, rate["local"][4], 3*rate["local"][1], "local transactions scale (Figure 4)")
	require.Greater(t, rate["tpcc"][4], rate["tpcc"][1], "TPC-C scales (Figure 4)")
	for i := 1; i < 4; i++ {
		require.Greater(t, r.Latency[i].Median, r.Latency[i-1].Median, "more warehouses take longer (Figure 6)")
	}
	require.Zero(t, r.Latency[0].Coordination)
	require.Greater(t, r.Transfers[2].Took, 5*r.Transfers[1].Took, "a transfer takes time in proportion to its size (Figure 8)")
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "Table I")
}

// TestHeronRepeats: equal seeds give equal figures.
func TestHeronRepeats(t *testing.T) {
	run := func() (samples []sample) {
		c := DefaultHeron()
		c.Window = 200 * time.Microsecond
		_, x, err := c.measure(context.Background(), load{warehouses: 2, members: members, clients: 2, kind: -1})
		require.NoError(t, err)
		return x.samples
	}
	first := run()
	require.Equal(t, first, run())
}

// TestTransactions: a transaction survives its encoding, and names all of its warehouses.
func TestTransactions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x := draw(rng, mix(rng), 3, 8, 0)
		require.Equal(t, x, decodeTransaction(x.encode()))
		app := &tpcc{}
		for _, id := range app.Reads(3, x.encode()) {
			require.Contains(t, x.groups(), app.Owner(id))
		}
	}
}

// TestOrderIsDelivered: a new order is kept, its stock is taken, and a delivery charges the customer.
func TestOrderIsDelivered(t *testing.T) {
	app, rowsOf := &tpcc{}, map[heron.ObjectID][]byte{}
	execute := func(g multicast.GroupID, x transaction) {
		writes, _ := app.Execute(g, x.encode(), func(id heron.ObjectID) []byte { return rowsOf[id] })
		for _, w := range writes {
			require.Equal(t, g, app.Owner(w.ID))
			require.LessOrEqual(t, len(w.Value), rowSize)
			rowsOf[w.ID] = w.Value
		}
	}
	order := transaction{kind: newOrder, home: 1, away: 1, district: 4, customer: 7, lines: []line{{5, 1, 2}, {6, 2, 3}}}
	execute(1, order)
	execute(2, order)
	require.Equal(t, byte(2), rowsOf[rowOf(1, stockTable, 5)][0])
	require.Equal(t, byte(3), rowsOf[rowOf(2, stockTable, 6)][0])
	execute(1, transaction{kind: delivery, home: 1, away: 1})
	s := &scene{app: app, group: 1, get: func(id heron.ObjectID) []byte { return rowsOf[id] }}
	require.Equal(t, 2*price(5)+3*price(6), s.row(rowOf(1, customerTable, 4*customers+7), 3)[2])
}

// BenchmarkNewOrder is where the price of an access comes from.
func BenchmarkNewOrder(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	app := &tpcc{}
	x := draw(rng, newOrder, 1, 1, 1)
	payload, row := x.encode(), make([]byte, stockRow)
	for b.Loop() {
		app.Execute(1, payload, func(heron.ObjectID) []byte { return row })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(app.accesses), "ns/access")
}
