package disk

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/block/segfile"
)

// usage is the number of live blocks, and their size: in a segment with the headers of records, in the index
// without.
type usage struct {
	bytes  uint64
	blocks uint64
}

// segmentUsage is the entry of one segment in the ledger.
type segmentUsage struct {
	usage
	size uint64 // of the file
}

func (h *segmentUsage) dead() uint64 { return h.size - min(h.bytes, h.size) }

// deadShare returns the dead share of the file, 1 for an empty file.
func (h *segmentUsage) deadShare() float64 {
	if h.size == 0 {
		return 1
	}
	return float64(h.dead()) / float64(h.size)
}

// ledger has the usage of each segment and of the blocks in the index. The index stores the same numbers
// (S6), so that Open reads them and counts nothing.
type ledger struct {
	mu       sync.Mutex
	segments map[uint32]segmentUsage // GUARDED_BY mu
	inline   usage                   // GUARDED_BY mu
}

// Stats is the content of a store, and its work since it was opened.
type Stats struct {
	Blocks       uint64 // number of live blocks
	LiveBytes    uint64 // of their data
	DeadBytes    uint64 // of segments: deleted, replaced or torn records and their headers
	Segments     int
	SegmentBytes uint64 // size of all segments: live and dead data with headers

	WrittenBytes uint64 // to segments and the journal of the index
	Compactions  uint64 // segments that compaction has removed
	MovedBlocks  uint64 // blocks that compaction has moved
	MovedBytes   uint64 // of their records
	BadRecords   uint64 // live records that compaction found bad and left in place (S8)
	Rebuilds     uint64 // of a damaged index
}

// count fills in the content of the store.
func (l *ledger) count(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Blocks, s.LiveBytes = l.inline.blocks, l.inline.bytes
	for _, h := range l.segments {
		s.Blocks += h.blocks
		s.LiveBytes += h.bytes - h.blocks*segfile.HeaderSize
		s.DeadBytes += h.dead()
		s.SegmentBytes += h.size
	}
	s.Segments = len(l.segments)
}

// of returns the entry of a segment; false if the segment is gone.
func (l *ledger) of(segment uint32) (segmentUsage, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.segments[segment]
	return h, ok
}

// setSize records the size of a segment.
func (l *ledger) setSize(segment uint32, size uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.segments[segment]
	h.size = size
	l.segments[segment] = h
}

// forget drops a segment after the removal of its file.
func (l *ledger) forget(segment uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.segments, segment)
}

// mostDead returns the segments that due selects, the one with the largest dead share first.
func (l *ledger) mostDead(due func(segment uint32, h segmentUsage) bool) []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	chosen := make(map[uint32]float64)
	for segment, h := range l.segments {
		if due(segment, h) {
			chosen[segment] = h.deadShare()
		}
	}
	return slices.SortedFunc(maps.Keys(chosen), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(chosen[b], chosen[a]), cmp.Compare(a, b))
	})
}
