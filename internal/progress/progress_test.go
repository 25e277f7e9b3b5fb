package progress

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	var none *Meter
	none.Begin("x")
	none.Count(1, "blocks", "x")
	none.Add(1)
	none.Reach(1, 2)
	require.Zero(t, none.State())

	m := new(Meter)
	m.Begin("reading partition %d", 3)
	require.Equal(t, State{Doing: "reading partition 3"}, m.State())
	m.Count(100, "blocks", "copying")
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 10 {
				m.Add(2)
			}
		})
	}
	workers.Wait()
	require.Equal(t, State{Doing: "copying", Unit: "blocks", Done: 80, Total: 100}, m.State())
	m.Reach(90, 120)
	require.Equal(t, State{Doing: "copying", Unit: "blocks", Done: 90, Total: 120}, m.State())
	m.Begin("checking")
	require.Equal(t, State{Doing: "checking"}, m.State(), "each step counts anew")
}
