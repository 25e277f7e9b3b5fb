package ordering

import (
	"slices"
	"time"
)

// sample is a set of latencies.
type sample []time.Duration

// percentile gives the smallest latency that at least this part of a sorted sample does not exceed; 0 for an
// empty one. 0 percent is the lowest.
func (s sample) percentile(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	rank := (len(s)*percent + 99) / 100 // rounded up
	return s[max(rank, 1)-1]
}

// distribution gives the percentiles 0 to 100 in milliseconds: the CDF with its axes exchanged. It sorts s.
func (s sample) distribution() []float64 {
	slices.Sort(s)
	d := make([]float64, 101)
	for percent := range d {
		d[percent] = milliseconds(s.percentile(percent))
	}
	return d
}

// milliseconds has whole microseconds, which is as exact as anything here.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond).Microseconds()) / 1000
}
