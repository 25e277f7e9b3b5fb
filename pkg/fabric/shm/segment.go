package shm

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
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

// seals keep the size of a segment: access to pages that are gone would end the process.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// segment is memory that the initiator and the target of a connection share.
type segment struct {
	bytes []byte
	ring  int // bytes of each ring
}

// createSegment makes a segment, and the file to pass it by. The caller closes the file.
func createSegment(ring int) (*segment, *os.File, error) {
	fd, err := unix.MemfdCreate("globalfs-shm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "globalfs-shm")
	if err := file.Truncate(int64(ringsAt + 2*ring)); err != nil {
		return nil, nil, closed(file, fmt.Errorf("shm: segment of %d bytes: %w", ringsAt+2*ring, err))
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, nil, closed(file, fmt.Errorf("shm: seal the segment: %w", err))
	}
	s, err := mapSegment(file, ring)
	if err != nil {
		return nil, nil, closed(file, err)
	}
	return s, file, nil
}

// closed closes a file after an error.
func closed(file *os.File, err error) error {
	_ = file.Close() // err is reported
	return err
}

// openSegment maps a segment that a peer has made. The peer is not trusted: the segment must be memory that
// the peer can neither shrink nor let fail in another way.
func openSegment(file *os.File, ring int) (*segment, error) {
	has, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || has&seals != seals {
		return nil, fmt.Errorf("shm: the peer's segment is not sealed (seals %#x, %v): the peer is broken or of another version", has, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return nil, fmt.Errorf("shm: the peer's segment is on a file system of type %#x, %v: the peer is broken or of another version", fs.Type, err)
	}
	info, err := file.Stat()
	if err != nil || info.Size() != int64(ringsAt+2*ring) {
		return nil, fmt.Errorf("shm: the peer's segment does not have %d bytes (%v): the peer is broken or of another version", ringsAt+2*ring, err)
	}
	return mapSegment(file, ring)
}

func mapSegment(file *os.File, ring int) (*segment, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, ringsAt+2*ring, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: map the segment: %w", err)
	}
	return &segment{bytes: bytes, ring: ring}, nil
}

// unmap ends the use of the segment. Nothing may use its rings or words any more.
func (s *segment) unmap() {
	_ = unix.Munmap(s.bytes) // fails only for memory that is not mapped
	s.bytes = nil
}

// word gives a word that both sides use. The peer may change it at any time.
func (s *segment) word(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&s.bytes[at]))
}

func (s *segment) requests() []byte { return s.bytes[ringsAt : ringsAt+s.ring] }

func (s *segment) answers() []byte { return s.bytes[ringsAt+s.ring : ringsAt+2*s.ring] }

// validRing reports whether rings may have a size. Cursors are reduced by a mask.
func validRing(size uint64) bool { return size >= minRing && size <= maxRing && size&(size-1) == 0 }
