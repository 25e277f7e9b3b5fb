package session

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// DefaultLease is the time after which a silent session ends.
const DefaultLease = time.Minute

// Update names an update of a session. Its client has received the answers to all updates up to Done.
type Update struct{ Session, Seq, Done uint64 }

// Name names an update of a client: another client that uses the same session number does not interfere.
type Name struct {
	Session, Seq uint64
	Client       string // name of the client; empty: a process of the cluster
}

// Name returns the name of an update of a client.
func (u Update) Name(client *ask.Client) Name { return Name{u.Session, u.Seq, client.Owner()} }

// session is a client as this partition knows it. All fields but deadline are replicated state.
type session struct {
	id           uint64
	renewals     uint64
	renewalPlace uint64 // place in the partition's order that the client had seen at its last renewal
	held         []posix.Ino
	horizon      uint64 // the counters of blocks that may still be written start here
	received     uint64 // the client has the answers to all updates up to here
	answers      map[uint64][]byte
	owner        string // name of the client that opened the session; empty: a process of the cluster

	deadline time.Duration // of the lease, on this replica's monotonic clock
}

// Sessions are the sessions of one partition. Sessions are not safe for concurrent use.
type Sessions struct {
	keys     meta.Keys
	lease    time.Duration
	stagger  time.Duration // replicas wait differently long, so that mostly one proposes the end of a session
	open     map[uint64]*session
	ended    map[uint64]struct{}
	expireAt time.Duration    // the next look at leases; 0: never
	usage    map[string]Usage // of open, by owner
	holders  holders
}

const (
	sessionPrefix = byte(0x41)
	answerPrefix  = byte(0x42)
	endedPrefix   = byte(0x45)
)

func sessionKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{sessionPrefix}, id)
}

func answerKey(id, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{answerPrefix}, id), seq)
}

// IsAnswer reports whether a key of a store is that of the answer to an update.
func IsAnswer(key []byte) bool { return len(key) > 0 && key[0] == answerPrefix }

func endedKey(at posix.Time, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{endedPrefix}, uint64(max(0, at))), id)
}

// Load reads the sessions that keys hold. Their leases begin anew. index is this replica's index in its
// group.
func Load(keys meta.Keys, lease time.Duration, index int) (*Sessions, error) {
	if lease == 0 {
		lease = DefaultLease
	}
	s := &Sessions{
		keys: keys, lease: lease, stagger: lease / 4 * time.Duration(index),
		open: map[uint64]*session{}, ended: map[uint64]struct{}{}, usage: map[string]Usage{}, holders: holders{count: map[posix.Ino]int{}},
	}
	for _, load := range []func() error{s.loadEnded, s.loadOpen, s.loadAnswers} {
		if err := load(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Sessions) loadEnded() error {
	for k := range s.keys.Scan([]byte{endedPrefix}, []byte{endedPrefix + 1}) {
		if len(k) != 17 {
			return fmt.Errorf("stored end of a session %x: %w", k, varint.ErrMalformed)
		}
		s.ended[binary.BigEndian.Uint64(k[9:])] = struct{}{}
	}
	return nil
}

func (s *Sessions) loadOpen() error {
	for k, v := range s.keys.Scan([]byte{sessionPrefix}, []byte{sessionPrefix + 1}) {
		r := varint.NewReader(v)
		x := &session{renewals: r.Uint64(), renewalPlace: r.Uint64(), horizon: r.Uint64(), answers: map[uint64][]byte{}}
		for n := r.Count(); n > 0 && r.Err() == nil; n-- {
			x.held = append(x.held, posix.Ino(r.Uint64()))
		}
		if r.Len() > 0 {
			x.owner = r.String()
		}
		if r.Done() != nil || len(k) != 9 {
			return fmt.Errorf("stored session %x: %w", k, varint.ErrMalformed)
		}
		x.id = binary.BigEndian.Uint64(k[1:])
		s.open[x.id] = x
		s.count(x.owner, 1, len(x.held))
		s.holders.add(x.held)
		s.startLease(x, 0)
	}
	return nil
}

func (s *Sessions) loadAnswers() error {
	for k, v := range s.keys.Scan([]byte{answerPrefix}, []byte{answerPrefix + 1}) {
		r := varint.NewReader(v)
		received, answer := r.Uint64(), slices.Clone(r.Bytes())
		if r.Done() != nil || len(k) != 17 {
			return fmt.Errorf("stored answer %x: %w", k, varint.ErrMalformed)
		}
		x := s.open[binary.BigEndian.Uint64(k[1:])]
		if x == nil {
			return fmt.Errorf("stored answer %x: its session is missing", k)
		}
		x.received = max(x.received, received)
		x.answers[binary.BigEndian.Uint64(k[9:])] = answer
	}
	return nil
}

// save stores x.
func (s *Sessions) save(x *session) {
	b := varint.AppendUint(nil, x.renewals)
	b = varint.AppendUint(b, x.renewalPlace)
	b = varint.AppendUint(b, x.horizon)
	b = varint.AppendUint(b, uint64(len(x.held)))
	for _, ino := range x.held {
		b = varint.AppendUint(b, ino)
	}
	if x.owner != "" {
		b = varint.AppendBytes(b, x.owner)
	}
	s.keys.Set(sessionKey(x.id), b)
}

// Open opens a session, or confirms that it is open. The number of a session of another client, or of one
// that has ended, is refused.
func (s *Sessions) Open(id, seen uint64, client *ask.Client, now time.Duration) ask.Outcome {
	if _, ended := s.ended[id]; ended {
		return ask.UnknownSession
	}
	if x := s.open[id]; x != nil {
		if !x.admits(client) {
			return ask.UnknownSession
		}
		return ask.Answered
	}
	x := &session{id: id, renewalPlace: seen, answers: map[uint64][]byte{}, owner: client.Owner()}
	s.open[id] = x
	s.count(x.owner, 1, 0)
	s.save(x)
	s.startLease(x, now)
	return ask.Answered
}

// admits reports whether a client may use the session.
func (x *session) admits(c *ask.Client) bool { return c == nil || c.Name == x.owner }

// Has reports whether a session is open and a client may use it.
func (s *Sessions) Has(id uint64, client *ask.Client) bool {
	x := s.open[id]
	return x != nil && x.admits(client)
}

// Len returns the number of open sessions.
func (s *Sessions) Len() int { return len(s.open) }

// Renewal is the report of a client in a renewal: the place of the partition's order that it has seen, the
// inodes that it holds open, and the lowest counter of a block that it may still write.
type Renewal struct {
	Seen    uint64
	Held    []posix.Ino
	Horizon uint64
}

// Renew extends the lease of an open session. A renewal that has seen less than an earlier one is an older
// copy: its inodes do not replace those of the newer one, which may hold more.
func (s *Sessions) Renew(id uint64, r Renewal, now time.Duration) {
	x := s.open[id]
	x.renewals++
	if r.Seen >= x.renewalPlace {
		s.count(x.owner, 0, len(r.Held)-len(x.held))
		s.holders.add(r.Held)
		s.holders.remove(x.held)
		x.renewalPlace, x.held = r.Seen, slices.Clone(r.Held)
	}
	x.horizon = max(x.horizon, r.Horizon)
	s.save(x)
	s.startLease(x, now)
}

// rememberedEnd is the time, by the order's clock, for which the end of a session is remembered: a replica
// that was cut off for less may still propose to open the session.
const rememberedEnd = 7 * 24 * time.Hour

// End ends a session at a time of the order (S3). Nothing happens if the session is not open.
func (s *Sessions) End(id uint64, at posix.Time) {
	x := s.open[id]
	if x == nil {
		return
	}
	delete(s.open, id)
	s.count(x.owner, -1, -len(x.held))
	s.holders.remove(x.held)
	s.keys.Delete(sessionKey(id))
	for seq := range x.answers {
		s.keys.Delete(answerKey(id, seq))
	}
	s.ended[id] = struct{}{}
	s.keys.Set(endedKey(at, id), nil)
	for k := range s.keys.Scan([]byte{endedPrefix}, endedKey(at-posix.Time(rememberedEnd), 0)) {
		delete(s.ended, binary.BigEndian.Uint64(k[9:]))
		s.keys.Delete(k)
	}
}

// Seen returns the place of the order that every session has seen. own is the present place, for a partition
// without sessions.
func (s *Sessions) Seen(own uint64) uint64 {
	for _, x := range s.open {
		own = min(own, x.renewalPlace)
	}
	return own
}

// Horizon returns the lowest counter of a block that an open session may still write.
func (s *Sessions) Horizon(id uint64) (counter uint64, open bool) {
	x := s.open[id]
	if x == nil {
		return 0, false
	}
	return x.horizon, true
}
