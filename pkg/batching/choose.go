package batching

import (
	"fmt"
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
