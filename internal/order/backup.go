package order

import "github.com/globalfs/globalfs/internal/varint"

// A backup is a consistent cut through all partitions. Its number is on each entry that a replica proposes,
// on each frame that it sends, and in the tag of each vector that it gives to a client (package replica). A
// replica uses the highest number that it has received. So the number reaches a partition before, or together
// with, each consequence of an entry that was executed after the marker of the backup in another partition
// (package cross).

// LearnBackup records the number of a backup that another process has sent, or that begins at this replica.
func (o *Orders) LearnBackup(number uint64) { o.backup = max(o.backup, number) }

// Backup returns the number of the newest backup that this replica knows; 0: none.
func (o *Orders) Backup() uint64 { return o.backup }

// learnSection takes the number of a backup from a section of a frame.
func (o *Orders) learnSection(data []byte) {
	r := varint.NewReader(data)
	if number := r.Uint64(); r.Done() == nil {
		o.LearnBackup(number)
	}
}

// carry returns the frame with data and, if it is not 0, the number of a backup as the first section.
func carry(backup uint64, data []byte) []byte {
	if backup == 0 {
		return data
	}
	b := append(make([]byte, 0, len(data)+12), byte(sectionBackup))
	b = varint.AppendBytes(b, varint.AppendUint(nil, backup))
	return append(b, data...)
}

// BackupOf returns the number of the backup that the payload of a delivery carries; 0: none, or it is
// malformed.
func BackupOf(payload []byte) uint64 {
	e, err := DecodeEntry(payload)
	if err != nil {
		return 0
	}
	return e.Backup
}
