package ask

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// MaxInterest bounds the bytes of Interest.
const MaxInterest = 2 << 10

// maxLinger bounds Watching.Linger.
const maxLinger = time.Minute

// Watching is the content of a request of kind Watch: it asks for the changes of the tree after a place of
// the partition's order.
type Watching struct {
	History  uint64        // of From
	From     uint64        // the client knows the changes up to this place
	Mark     uint64        // of From, from a replica: a partition may lose entries and order others
	Linger   time.Duration // without a change that interests the client, the replica waits so long with its answer
	Interest Interest      // nil: no change is urgent
	Attrs    bool          // the client also requests changes of attributes (meta.ChangedAttr)
	// Recalls asks for the directories that the session is to return (package delegation), and for no
	// changes. A recall is urgent.
	Recalls bool
}

// Append appends the encoding of w.
func (w *Watching) Append(b []byte) []byte {
	b = varint.AppendUint(varint.AppendUint(varint.AppendUint(b, w.History), w.From), w.Mark)
	b = varint.AppendUint(b, uint64(w.Linger/time.Millisecond))
	b = varint.AppendBytes(b, w.Interest)
	if flags := flagsOf(w.Attrs, w.Recalls); flags != 0 { // older replicas know only withAttrs, or no flags
		b = append(b, flags)
	}
	return b
}

// Flags behind the other fields of Watching and Changes.
const (
	withAttrs   = byte(1)
	withRecalls = byte(2)
)

func flagsOf(attrs, recalls bool) (flags byte) {
	if attrs {
		flags |= withAttrs
	}
	if recalls {
		flags |= withRecalls
	}
	return flags
}

// DecodeWatching reads a Watching that Append has written. It ignores further bytes: a newer client may send
// more.
func DecodeWatching(b []byte) (Watching, error) {
	r := varint.NewReader(b)
	w := Watching{History: r.Uint64(), From: r.Uint64(), Mark: r.Uint64()}
	w.Linger = time.Duration(r.Uint(uint64(maxLinger/time.Millisecond))) * time.Millisecond
	w.Interest = slices.Clone(r.Bytes())
	if r.Len() > 0 { // older clients send no flags
		flags := r.Uint8()
		w.Attrs, w.Recalls = flags&withAttrs != 0, flags&withRecalls != 0
	}
	if len(w.Interest) > MaxInterest {
		r.Fail()
	}
	if r.Err() != nil {
		return Watching{}, fmt.Errorf("watch: %w", r.Err())
	}
	return w, nil
}

// Interest is a set of inodes as bits: a client names the directories and, if it requests changes of
// attributes, the inodes with urgent changes. It may have more inodes than were added, never less.
type Interest []byte

// NewInterest returns an empty set with room for n inodes.
func NewInterest(n int) Interest {
	size := 8
	for size < n && size < MaxInterest { // a byte for each inode
		size *= 2
	}
	return make(Interest, size)
}

// AllInterest returns the set of all inodes.
func AllInterest() Interest { return bytes.Repeat([]byte{0xff}, 8) }

func (s Interest) bit(ino posix.Ino) (index uint64, mask byte) {
	const spread = 0x9e3779b97f4a7c15
	at := uint64(ino) * spread >> 16 % uint64(8*len(s))
	return at / 8, 1 << (at % 8)
}

// Add adds an inode.
func (s Interest) Add(ino posix.Ino) {
	i, mask := s.bit(ino)
	s[i] |= mask
}

// Has reports whether an inode may be in the set.
func (s Interest) Has(ino posix.Ino) bool {
	if len(s) == 0 {
		return false
	}
	i, mask := s.bit(ino)
	return s[i]&mask != 0
}

// Change is a change of the tree.
type Change struct {
	meta.Change
	Place uint64 // in the partition's order
	Own   bool   // an update of the session that watches made it
}

// MaxChanges bounds the changes of one answer, unless a single place has more.
const MaxChanges = 2 << 10

// Changes is the answer to Watching.
type Changes struct {
	History uint64
	From    uint64 // the changes after this place
	To      uint64 // up to this place; below From: the replica is behind the client
	Mark    uint64 // of To
	Lost    bool   // the replica does not have them any more: anything may have changed
	List    []Change
	Attrs   bool // the list has the changes of attributes, too: the client has asked for these, and the replica knows of them

	Recalled []posix.Ino // with Watching.Recalls: directories that the session is to return
}

// Append appends the encoding of c.
func (c *Changes) Append(b []byte) []byte {
	b = varint.AppendUint(varint.AppendUint(varint.AppendUint(b, c.History), c.From), c.To)
	b = varint.AppendUint(b, c.Mark)
	b = varint.AppendUint(b, varint.Bit(c.Lost))
	b = varint.AppendUint(b, uint64(len(c.List)))
	last := c.From
	for i := range c.List {
		x := &c.List[i]
		b = append(b, byte(x.Kind))
		b = varint.AppendUint(b, x.Ino)
		b = varint.AppendUint(b, (x.Place-last)<<1|varint.Bit(x.Own))
		b = varint.AppendBytes(b, x.Name)
		last = x.Place
	}
	flags := flagsOf(c.Attrs, len(c.Recalled) > 0)
	if flags == 0 { // older clients have asked for nothing of it
		return b
	}
	b = append(b, flags)
	if len(c.Recalled) > 0 {
		b = varint.AppendUint(b, uint64(len(c.Recalled)))
	}
	for _, dir := range c.Recalled {
		b = varint.AppendUint(b, dir)
	}
	return b
}

// DecodeChanges reads Changes that Append has written. It ignores further bytes. A change of a kind that this
// version does not know makes the answer Lost.
func DecodeChanges(b []byte) (Changes, error) {
	r := varint.NewReader(b)
	c := Changes{History: r.Uint64(), From: r.Uint64(), To: r.Uint64(), Mark: r.Uint64(), Lost: r.Uint(1) == 1}
	last := c.From
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		x := Change{Change: meta.Change{Kind: meta.ChangeKind(r.Uint8()), Ino: posix.Ino(r.Uint64())}}
		step := r.Uint64()
		x.Place, x.Own, x.Name = last+step>>1, step&1 != 0, r.String()
		if x.Place < last || x.Place > c.To {
			r.Fail()
		}
		c.Lost = c.Lost || !x.Kind.IsKnown()
		last = x.Place
		c.List = append(c.List, x)
	}
	if r.Len() > 0 {
		flags := r.Uint8()
		c.Attrs = flags&withAttrs != 0
		if flags&withRecalls != 0 {
			c.Recalled = readInodes(r)
		}
	}
	if r.Err() != nil {
		return Changes{}, fmt.Errorf("changes: %w", r.Err())
	}
	return c, nil
}

func readInodes(r *varint.Reader) (all []posix.Ino) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		all = append(all, posix.Ino(r.Uint64()))
	}
	return all
}
