package batching

import (
	"fmt"
	"math"
	"slices"
)

// ChooseFor returns the batch for clients in a closed loop: outstanding requests wait or are under way at
// any time. The leader then has outstanding/k instances at most, of which each takes the CPU time, the
// transfer of the batch, and a round trip. So the throughput is at most
//
//	min(k / max(CPU, network busy time), outstanding / (CPU + S2a/B + 2L))
//
// The first term grows with k, since a batch shares the costs of an instance. The second one falls: a large
// batch leaves the other resources idle while it uses one of them. ChooseFor gives the geometric mean of the
// smallest and the largest batch within 1% of the highest value. The window is not bounded: the outstanding
// requests bound it.
func ChooseFor(s System, w Workload, outstanding int) (Prediction, error) {
	if outstanding < 1 {
		return Prediction{}, fmt.Errorf("batching: %d outstanding requests: at least 1 is needed", outstanding)
	}
	all, most := make([]Prediction, outstanding), 0.0
	for i := range all {
		p, err := Predict(s, w, i+1)
		if err != nil {
			return Prediction{}, err
		}
		alone := p.CPU + s.transfer(float64(p.Batch)) + 2*s.Delay
		p.Throughput = min(p.Throughput, float64(outstanding)/alone.Seconds())
		all[i], most = p, max(most, p.Throughput)
	}
	all = slices.DeleteFunc(all, func(p Prediction) bool { return p.Throughput < 0.99*most })
	middle := int(math.Sqrt(float64(all[0].Requests) * float64(all[len(all)-1].Requests)))
	return all[middle-all[0].Requests], nil
}
