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

// A backup saves the state of each partition at its marker: in front of the first entry of the partition's
// order that carries the number of the backup, or a higher one (package order). All replicas of the partition
// meet the marker at the same place. Package cross proves that the states of all partitions make a consistent
// cut.

// HoldBlocks is the time for which a marker keeps blocks from being collected. The program that makes the
// backup repeats the marker more often, until it has copied the blocks.
const HoldBlocks = 2 * time.Minute

// maxAhead bounds how far the number of a backup may be ahead of the clock: numbers are times, in
// milliseconds. A number that a client has made up does not exhaust them.
const maxAhead = 24 * time.Hour

// entryMarker starts a backup, extends the time for which its blocks are held, or releases them.
const entryMarker order.Kind = 9

var backupKey = []byte{0x4f}

// storedBackup is the replicated state: the newest backup, and the end of the time for which its blocks are
// held, by the times of entries.
type storedBackup struct {
	number uint64
	hold   posix.Time
}

// backup is the state of a replica for backups.
type backup struct {
	storedBackup
	propose []byte // the body of a marker that is to be proposed; nil: none
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

// Mark starts the backup with a number, which must be above that of all others, or extends the time for which
// its blocks are held. With release the blocks are released. It returns the newest backup that the partition
// knows. It must be called between two steps, and has its effect with the next one.
func (r *Replica) Mark(number uint64, release bool) (newest uint64) {
	r.orders.HearBackup(number)
	r.backup.propose = varint.AppendUint(varint.AppendUint(nil, number), varint.Bit(release))
	return r.backup.number
}

// proposeMarker proposes the marker that was asked for.
func (r *Replica) proposeMarker() {
	if r.backup.propose != nil {
		r.orders.Propose(order.Entry{Kind: entryMarker, Body: r.backup.propose})
		r.backup.propose = nil
	}
}

// mark is called in front of each entry. If the entry carries a number above that of the partition, the
// present state of the partition is saved.
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
	r.orders.HearBackup(e.Backup)
	return nil
}

// passMarker executes a marker, which mark has met.
func (r *Replica) passMarker(e *order.Entry) error {
	b := varint.NewReader(e.Body)
	number, release := b.Uint64(), b.Uint(1) != 0
	if err := b.Done(); err != nil {
		return fmt.Errorf("marker of a backup: %w: %w", err, order.ErrVersion)
	}
	switch {
	case number != r.backup.number: // of a backup that was given up
	case release:
		r.backup.hold = 0
		r.backup.save(r.keys)
	default:
		r.backup.hold = max(r.backup.hold, e.Time+posix.Time(HoldBlocks))
		r.backup.save(r.keys)
	}
	return nil
}

// holdBlocks returns the form of a query for execution: while the blocks of a backup are held, no block
// counts as dropped long enough ago. The backup does not name blocks that were dropped before the marker;
// these are collected after the hold.
func (r *Replica) holdBlocks(c *meta.Command) *meta.Command {
	if c.Op != meta.OpQueue || posix.Time(r.now.Wall) >= r.backup.hold {
		return c
	}
	held := *c
	held.Time = 0
	return &held
}

// hearBackup takes the numbers of backups from accepted proofs.
func (r *Replica) hearBackup(p ask.Proofs) {
	for i := range p {
		if _, number := splitTag(p[i].Tag); number != nil {
			if n := binary.BigEndian.Uint64(number); n <= uint64(r.now.Wall+int64(maxAhead))/uint64(time.Millisecond) {
				r.orders.HearBackup(n)
			}
		}
	}
}

// A tag may end with the number of a backup. The seal covers the number, so that no client can forge one.
const (
	tagUnit     = 16 // the length of a seal; a cluster without keys has none
	taggedBytes = 8
)

func appendTagged(b []byte, backup uint64) []byte {
	if backup == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(b, backup)
}

// splitTag returns the seal of a tag, and the number of a backup behind it; nil: there is none.
func splitTag(tag []byte) (seal, number []byte) {
	if len(tag)%tagUnit != taggedBytes {
		return tag, nil
	}
	return tag[:len(tag)-taggedBytes], tag[len(tag)-taggedBytes:]
}
