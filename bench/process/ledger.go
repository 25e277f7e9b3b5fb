package process

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// recent is the number of remembered numbers of a sender: more than it can have on the way.
const recent = 1 << 15

// maxViolations bounds the violations that a process reports.
const maxViolations = 10

// ledger is the state of the state machine: the deliveries.
type ledger struct {
	Position   multicast.Position
	Count      uint64
	Digest     uint64 // of ids and final timestamps, in order
	Senders    map[multicast.ProcessID]*sender
	Violations []string

	scratch [28]byte
}

// sender is the deliveries of messages of one sender.
type sender struct {
	Count uint64
	High  uint64              // the highest number
	Seen  [recent / 64]uint64 // of the numbers in (High-recent, High]
}

// mark records number seq. It is false if the number was noted before, or is too old to tell.
func (s *sender) mark(seq uint64) bool {
	switch {
	case seq > s.High+recent:
		s.Seen = [recent / 64]uint64{}
		s.High = seq
	case seq > s.High:
		for n := s.High + 1; n <= seq; n++ {
			s.Seen[n%recent/64] &^= 1 << (n % 64)
		}
		s.High = seq
	case seq+recent <= s.High:
		return false
	}
	word, bit := &s.Seen[seq%recent/64], uint64(1)<<(seq%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	s.Count++
	return true
}

// deliver notes d. It skips a delivery that the state already held at a restart.
func (l *ledger) deliver(d *multicast.Delivery, restored multicast.Position) {
	at := d.Position()
	if at.Compare(restored) <= 0 {
		return
	}
	if at.Compare(l.Position) <= 0 {
		l.violate("position %v is delivered after %v", at, l.Position)
	}
	s := l.Senders[d.ID.Sender]
	if s == nil {
		s = &sender{}
		l.Senders[d.ID.Sender] = s
	}
	if !s.mark(d.ID.Seq) {
		l.violate("message %v is delivered twice", d.ID)
	}
	l.Position = at
	l.Count++
	b := l.scratch[:]
	binary.LittleEndian.PutUint64(b, l.Digest)
	binary.LittleEndian.PutUint64(b[8:], uint64(d.Final))
	binary.LittleEndian.PutUint64(b[16:], d.ID.Seq)
	binary.LittleEndian.PutUint32(b[24:], uint32(d.ID.Sender))
	h := fnv.New64a()
	_, _ = h.Write(b)
	l.Digest = h.Sum64()
}

func (l *ledger) violate(format string, args ...any) {
	if len(l.Violations) < maxViolations {
		l.Violations = append(l.Violations, fmt.Sprintf(format, args...))
	}
}

// loadLedger gives the ledger saved in dir; an empty one if there is none.
func loadLedger(dir string) (ledger, error) {
	l := ledger{Senders: map[multicast.ProcessID]*sender{}}
	b, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if os.IsNotExist(err) {
		return l, nil
	} else if err != nil {
		return l, err
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("ledger in %s: %w", dir, err)
	}
	return l, nil
}

// save replaces the ledger in dir; with sync it survives a loss of power too.
func (l *ledger) save(dir string, sync bool) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "ledger")
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil && sync {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err == nil && sync {
		err = durable.SyncDir(dir)
	}
	return err
}
