package shm

import (
	"fmt"
	"os"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// The layout of a segment: words on cache lines of their own, then the ring of operations, then the ring of
// answers.
const (
	requestHead   = 0 * 128
	requestTail   = 1 * 128
	answerHead    = 2 * 128
	answerTail    = 3 * 128
	targetWord    = 4 * 128
	initiatorWord = 5 * 128
	ringsAt       = 4096

	minRing = 4096
	maxRing = 64 << 20
)

// segment is the memory that the initiator and the target of a connection share.
type segment struct {
	ring.Memory
	ring int // bytes of each ring
}

// createSegment creates a segment. It also returns the file of the segment, for the peer. The caller closes
// the file.
func createSegment(size int) (*segment, *os.File, error) {
	m, file, err := ring.Create(ringsAt + 2*size)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: %w", err)
	}
	return &segment{m, size}, file, nil
}

// openSegment maps a segment that a peer has created.
func openSegment(file *os.File, size int) (*segment, error) {
	m, err := ring.Open(file, ringsAt+2*size)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	return &segment{m, size}, nil
}

func (s *segment) requests() []byte { return s.Memory[ringsAt : ringsAt+s.ring] }

func (s *segment) answers() []byte { return s.Memory[ringsAt+s.ring : ringsAt+2*s.ring] }

// validRing reports whether size is permitted for a ring. It must be a power of two, because a mask maps
// cursors to places in the ring.
func validRing(size uint64) bool { return size >= minRing && size <= maxRing && size&(size-1) == 0 }
