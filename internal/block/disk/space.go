package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// reopenBytes is the free space on the disk, in bytes, from which on an index is opened again after a
	// failed write. The open makes new files; until then the old index stays open and can be read.
	reopenBytes = 8 << 20
	// moveMargin is the part of the reserve that compaction leaves to the index, in bytes.
	moveMargin = 4 << 20
)

// space returns the size of the disk and its available space, in bytes.
func (s *Store) space() (total, available uint64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.config.Dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", s.config.Dir, err)
	}
	size := uint64(fs.Bsize)
	return fs.Blocks * size, fs.Bavail * size, nil
}

// free returns the part of available that puts may use, in bytes.
func (s *Store) free(available uint64) uint64 {
	return available - min(available, s.config.ReserveBytes)
}

// isLow reports whether free space is low, so that compaction should free more: less than the larger of a
// thirty-second of the disk and two segments.
func (s *Store) isLow(total, free uint64) bool {
	return free < max(total/32, 2*s.config.SegmentBytes)
}
