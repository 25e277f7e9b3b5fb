package wan

const (
	small = 2048 // enough for most packets
	// mostPooled is the maximum number of bytes in kept buffers of each size.
	mostPooled = 64 << 20
)

// pool keeps buffers of two sizes for frames in flight.
type pool struct{ small, large [][]byte }

func (p *pool) get(size int) []byte {
	free, capacity := &p.large, largest
	if size <= small {
		free, capacity = &p.small, small
	}
	n := len(*free)
	if n == 0 {
		return make([]byte, size, capacity)
	}
	b := (*free)[n-1]
	*free = (*free)[:n-1]
	return b[:size]
}

func (p *pool) put(b []byte) {
	free := &p.large
	if cap(b) == small {
		free = &p.small
	}
	if len(*free)*cap(b) < mostPooled {
		*free = append(*free, b)
	}
}
