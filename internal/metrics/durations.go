package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shortest is the binary logarithm of the upper bound of the first bucket, in nanoseconds: 33 us.
const shortest = 15

// Durations is a histogram of times: up to 33 us, twice that, and so on, up to 34 s. The zero value is empty;
// its methods may be called concurrently.
type Durations struct {
	sum   atomic.Int64      // nanoseconds
	upTo  [21]atomic.Uint64 // 2^(shortest+i) ns, and more than i-1 has
	above atomic.Uint64
}

// Observe counts one time.
func (d *Durations) Observe(took time.Duration) {
	took = max(took, 1)
	d.sum.Add(int64(took))
	if i := bits.Len64(uint64(took-1) >> shortest); i < len(d.upTo) {
		d.upTo[i].Add(1)
		return
	}
	d.above.Add(1)
}

// metric converts the histogram to Prometheus' form, nil if it is empty.
func (d *Durations) metric(desc *prometheus.Desc, labels []string) (prometheus.Metric, error) {
	buckets, count := make(map[float64]uint64, len(d.upTo)), uint64(0)
	for i := range d.upTo {
		count += d.upTo[i].Load()
		buckets[(time.Duration(1) << (shortest + i)).Seconds()] = count
	}
	if count += d.above.Load(); count == 0 {
		return nil, nil
	}
	return prometheus.NewConstHistogram(desc, count, time.Duration(d.sum.Load()).Seconds(), buckets, labels...)
}

// Count returns the number of observed times.
func (d *Durations) Count() (n uint64) {
	for i := range d.upTo {
		n += d.upTo[i].Load()
	}
	return n + d.above.Load()
}
