package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// reopenBytes must be free on the disk before an index that could not be written is
	// opened again: LevelDB makes new files then, and while it is open it can be read.
	reopenBytes = 8 << 20
	// moveMargin of the reserve is left to the index by compaction.
	moveMargin = 4 << 20
)

// space gives the size of the disk and what is left of it, in bytes.
func (s *Store) space() (total, available uint64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.config.Dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", s.config.Dir, err)
	}
	size := uint64(fs.Bsize)
	return fs.Blocks * size, fs.Bavail * size, nil
}

// free gives what puts may use of what is available.
func (s *Store) free(available uint64) uint64 {
	return available - min(available, s.config.ReserveBytes)
}

// isLow reports whether so little is free that compaction should look for space: less than
// the larger of a thirty-second of the disk and two segments.
func (s *Store) isLow(total, free uint64) bool {
	return free < max(total/32, 2*s.config.SegmentBytes)
}
