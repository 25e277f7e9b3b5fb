package batching

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Choose gives the batch and the window that the paper recommends (section 6): the largest batch with which
// the time to order a request stays within limit, and the window for this batch. That time is the time to
// gather the batch at rate requests a second, plus the duration of an instance. A batch is at most most bytes
// long. If no batch is within the limit, the batch has one request.
func Choose(s System, w Workload, rate float64, limit time.Duration, most int) (Prediction, error) {
	if !(rate > 0) {
		return Prediction{}, fmt.Errorf("batching: a rate of %v requests a second: it must be above 0", rate)
	}
	best, err := Predict(s, w, 1)
	if err != nil {
		return Prediction{}, err
	}
	within := func(k int) (Prediction, bool, error) {
		p, err := Predict(s, w, k)
		gather := time.Duration(float64(k-1) / rate * float64(time.Second))
		return p, w.Batch(k) <= most && gather+p.Duration <= limit, err
	}
	low, high := 1, max(2, most/(w.Request+w.RequestHeader)+1) // high does not fit
	for high-low > 1 {
		k := low + (high-low)/2
		p, ok, err := within(k)
		if err != nil {
			return Prediction{}, err
		}
		if ok {
			low, best = k, p
		} else {
			high = k
		}
	}
	return best, nil
}

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
