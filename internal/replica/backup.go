package replica

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A backup saves the state of each partition at its marker: before the first entry of the partition's order
// that has the number of this backup, or a higher one (package order). All replicas of a partition have the
// marker at the same place. Package cross proves that the states of all partitions are a consistent cut.

// HoldBlocks is the time for which a marker keeps blocks from collection. The program that makes the backup
// repeats the marker more often than that, until it has copied the blocks.
const HoldBlocks = 2 * time.Minute

// maxAhead bounds the number of a backup, which is a time in milliseconds: it may be ahead of the clock by
// this much. Otherwise a forged number could prevent all later backups.
const maxAhead = 24 * time.Hour

// entryMarker starts a backup, extends the time for which its blocks are held, or releases them.
const entryMarker order.Kind = 9

var backupKey = []byte{0x4f}

// storedBackup is the replicated state of backups: the newest backup, and the time, by the times of entries,
// until which its blocks are held.
type storedBackup struct {
	number uint64
	hold   posix.Time
}

// backup is the state of a replica for backups.
type backup struct {
	storedBackup
	propose []byte // body of a marker to propose; nil: none
}

func loadBackup(keys meta.Keys) (s storedBackup, err error) {
	b := keys.Get(backupKey)
	if b == nil {
		return s, nil
	}
	r := varint.NewReader(b)
	s.number, s.hold = r.Uint64(), posix.Time(r.Int())
	if err := r.Done(); err != nil {
		return s, fmt.Errorf("stored number of a backup: %w", err)
	}
	return s, nil
}

func (b *backup) save(keys meta.Keys) {
	keys.Set(backupKey, varint.AppendInt(varint.AppendUint(nil, b.number), int64(b.hold)))
}

// Mark starts the backup with a number, which must be above the numbers of all earlier backups, or extends
// the time for which its blocks are held. With release, it releases the blocks. It returns the newest backup
// that the partition knows. Call it between two steps; it has its effect in the next one.
func (r *Replica) Mark(number uint64, release bool) (newest uint64) {
	r.orders.LearnBackup(number)
	r.backup.propose = varint.AppendUint(varint.AppendUint(nil, number), varint.Bit(release))
	return r.backup.number
}

// proposeMarker proposes the marker that Mark has requested.
func (r *Replica) proposeMarker() {
	if r.backup.propose != nil {
		r.orders.Propose(order.Entry{Kind: entryMarker, Body: r.backup.propose})
		r.backup.propose = nil
	}
}

// mark is called before each entry is executed. If the entry has a higher backup number than the partition,
// mark saves the present state for that backup.
func (r *Replica) mark(e *order.Entry) error {
	if e.Backup <= r.backup.number {
		return nil
	}
	r.save()
	if err := r.keys.Commit(false); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if r.cfg.Cut != nil {
		if err := r.cfg.Cut(e.Backup); err != nil {
			return fmt.Errorf("backup %d: %w", e.Backup, err)
		}
	}
	r.backup.storedBackup = storedBackup{e.Backup, e.Time + posix.Time(HoldBlocks)}
	r.backup.save(r.keys)
	r.orders.LearnBackup(e.Backup)
	return nil
}

// passMarker executes a marker. mark has saved the state before.
func (r *Replica) passMarker(e *order.Entry) error {
	b := varint.NewReader(e.Body)
	number, release := b.Uint64(), b.Uint(1) != 0
	if err := b.Done(); err != nil {
		return fmt.Errorf("marker of a backup: %w: %w", err, order.ErrVersion)
	}
	switch {
	case number != r.backup.number: // of a backup that was abandoned
	case release:
		r.backup.hold = 0
		r.backup.save(r.keys)
	default:
		r.backup.hold = max(r.backup.hold, e.Time+posix.Time(HoldBlocks))
		r.backup.save(r.keys)
	}
	return nil
}

// holdBlocks returns the query to execute instead of c: while the blocks of a backup are held, no block
// counts as dropped long enough ago to be collected. Blocks that were dropped before the marker are not part
// of the backup; they are collected after the hold, too.
func (r *Replica) holdBlocks(c *meta.Command) *meta.Command {
	if c.Op != meta.OpQueue || posix.Time(r.now.Wall) >= r.backup.hold {
		return c
	}
	held := *c
	held.Time = 0
	return &held
}

// learnBackup takes the numbers of backups from proofs that this replica has accepted.
func (r *Replica) learnBackup(p ask.Proofs) {
	for i := range p {
		if _, number := splitTag(p[i].Tag); number != nil {
			if n := binary.BigEndian.Uint64(number); n <= uint64(r.now.Wall+int64(maxAhead))/uint64(time.Millisecond) {
				r.orders.LearnBackup(n)
			}
		}
	}
}

// A tag is the proof of a vector. It consists of a seal, which proves the vector by the vector
// key, and perhaps the number of a backup. The seal covers the number, so a client cannot forge it.
const (
	sealUnit   = 16 // the length of a seal in bytes is a multiple of this; without vector keys it is 0
	numberSize = 8  // in bytes, of the number of a backup
)

func appendTagged(b []byte, backup uint64) []byte {
	if backup == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(b, backup)
}

// splitTag returns the two parts of a tag: the seal, and the encoded number of a backup; nil: it has none.
func splitTag(tag []byte) (seal, number []byte) {
	if len(tag)%sealUnit != numberSize {
		return tag, nil
	}
	return tag[:len(tag)-numberSize], tag[len(tag)-numberSize:]
}
