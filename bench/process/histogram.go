package process

import (
	"math/bits"
	"time"
)

// subBuckets of each power of two: a quantile is off by 1/subBuckets at most.
const subBuckets = 32

// histogram counts durations in microseconds, in constant memory.
type histogram struct {
	buckets [subBuckets * 32]uint64
	count   uint64
}

func bucketOf(us uint64) int {
	if us < subBuckets {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(subBuckets)
	return min(shift*subBuckets+int(us>>shift), len(histogram{}.buckets)-1)
}

// floorOf gives the smallest value in a bucket.
func floorOf(bucket int) uint64 {
	if bucket < 2*subBuckets {
		return uint64(bucket)
	}
	shift := bucket/subBuckets - 1
	return uint64(bucket-shift*subBuckets) << shift
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(0, d.Microseconds())))]++
	h.count++
}

// sparse gives the buckets that are not empty.
func (h *histogram) sparse() map[int]uint64 {
	m := map[int]uint64{}
	for i, n := range h.buckets {
		if n > 0 {
			m[i] = n
		}
	}
	return m
}

func (h *histogram) merge(sparse map[int]uint64) {
	for i, n := range sparse {
		if i >= 0 && i < len(h.buckets) {
			h.buckets[i] += n
			h.count += n
		}
	}
}

// quantile gives microseconds; 0 without any value.
func (h *histogram) quantile(q float64) uint64 {
	rank := uint64(q * float64(h.count))
	for i, n := range h.buckets {
		if n > rank {
			return floorOf(i)
		}
		rank -= n
	}
	return 0
}
