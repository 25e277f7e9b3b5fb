package replica

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A session is a client as this partition knows it. All but deadline is replicated state.
//
// A client says in each renewal which inodes it holds open, and how many commands of this partition it
// had seen (seen) when it said so. An inode that was unlinked by command c is held by nobody once each
// session has renewed with seen >= c and without it: whoever opens it later must first look it up, and
// a client that has seen c does not find it any more.
//
// Leases do not compare clocks of two machines: a replica that has not applied a renewal for
// the length of the lease, by its own clock, proposes the end of the session, and that has
// effect only if no renewal was ordered meanwhile.
type session struct {
	id       uint64
	renewals uint64
	seen     uint64
	held     []posix.Ino
	horizon  uint64 // below it no counter of a block of the session is named any more (garbage.go)
	done     uint64
	answers  map[uint64][]byte
	owner    string // the client that opened it; empty: one of the cluster's own

	deadline time.Duration // Mono, of this replica
}

var (
	positionKey   = []byte{0x40}
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

// openSession opens a session. The number of one that somebody else has is as good as one that has ended.
func (r *Replica) openSession(q *ask.Request, client *ask.Client) ask.Outcome {
	if s := r.sessions[q.Session]; s != nil {
		if !s.admits(client) {
			return ask.UnknownSession
		}
		return ask.Answered
	}
	s := &session{id: q.Session, seen: q.Vector.Of(r.cfg.Partition).Count, answers: map[uint64][]byte{}, owner: client.Owner()}
	r.sessions[s.id] = s
	r.saveSession(s)
	return ask.Answered
}

// admits reports whether a client may use the session.
func (s *session) admits(c *ask.Client) bool { return c == nil || c.Name == s.owner }

func (r *Replica) renewSession(s *session, q *ask.Request) {
	s.renewals++
	s.seen = max(s.seen, q.Vector.Of(r.cfg.Partition).Count)
	s.held = slices.Clone(q.Held)
	s.horizon = max(s.horizon, q.Horizon)
	r.saveSession(s)
}

func (r *Replica) endSession(s *session) {
	delete(r.sessions, s.id)
	r.rememberEnd(s.id)
	r.machine.EndSession(s.id)
	r.keys.Delete(sessionKey(s.id))
	for seq := range s.answers {
		r.keys.Delete(answerKey(s.id, seq))
	}
}

// rememberedEnd is for how long it is known that a session has ended, by the time of the order: a replica that was cut off for
// less may still propose that it be opened.
const rememberedEnd = 7 * 24 * time.Hour

// rememberEnd keeps a session from being opened again, by a copy of the request that opened it: what it did might
// be done again then.
func (r *Replica) rememberEnd(id uint64) {
	r.ended[id] = struct{}{}
	r.keys.Set(endedKey(r.time, id), nil)
	for k := range r.keys.Scan([]byte{endedPrefix}, endedKey(r.time-posix.Time(rememberedEnd), 0)) {
		delete(r.ended, binary.BigEndian.Uint64(k[9:]))
		r.keys.Delete(k)
	}
}

func endedKey(at posix.Time, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{endedPrefix}, uint64(max(0, at))), id)
}

// saveSession stores s, and lets its lease begin anew.
func (r *Replica) saveSession(s *session) {
	b := varint.AppendUint(nil, s.renewals)
	b = varint.AppendUint(b, s.seen)
	b = varint.AppendUint(b, s.horizon)
	b = varint.AppendUint(b, uint64(len(s.held)))
	for _, i := range s.held {
		b = varint.AppendUint(b, i)
	}
	if s.owner != "" {
		b = varint.AppendBytes(b, s.owner)
	}
	r.keys.Set(sessionKey(s.id), b)
	r.startLease(s)
}

// rememberAnswer keeps the answer to update seq and forgets those that its client says are done.
// The highest done is stored beside the answer with the highest number, which stays.
func (r *Replica) rememberAnswer(s *session, seq, done uint64, answer []byte) {
	for old := range s.answers {
		if old <= done {
			delete(s.answers, old)
			r.keys.Delete(answerKey(s.id, old))
		}
	}
	s.done = max(s.done, done)
	s.answers[seq] = answer
	r.keys.Set(answerKey(s.id, seq), varint.AppendBytes(varint.AppendUint(nil, s.done), answer))
}

// loadSessions reads the sessions back; their leases begin anew.
func (r *Replica) loadSessions() error {
	for k := range r.keys.Scan([]byte{endedPrefix}, []byte{endedPrefix + 1}) {
		if len(k) != 17 {
			return fmt.Errorf("stored end of a session %x: %w", k, varint.ErrMalformed)
		}
		r.ended[binary.BigEndian.Uint64(k[9:])] = struct{}{}
	}
	for k, v := range r.keys.Scan([]byte{sessionPrefix}, []byte{sessionPrefix + 1}) {
		rd := varint.NewReader(v)
		s := &session{renewals: rd.Uint64(), seen: rd.Uint64(), horizon: rd.Uint64(), answers: map[uint64][]byte{}}
		for n := rd.Count(); n > 0 && rd.Err() == nil; n-- {
			s.held = append(s.held, posix.Ino(rd.Uint64()))
		}
		if rd.Len() > 0 {
			s.owner = rd.String()
		}
		if rd.Done() != nil || len(k) != 9 {
			return fmt.Errorf("stored session %x: %w", k, varint.ErrMalformed)
		}
		s.id = binary.BigEndian.Uint64(k[1:])
		r.sessions[s.id] = s
		r.startLease(s)
	}
	for k, v := range r.keys.Scan([]byte{answerPrefix}, []byte{answerPrefix + 1}) {
		rd := varint.NewReader(v)
		done, answer := rd.Uint64(), slices.Clone(rd.Bytes())
		if rd.Done() != nil || len(k) != 17 {
			return fmt.Errorf("stored answer %x: %w", k, varint.ErrMalformed)
		}
		s := r.sessions[binary.BigEndian.Uint64(k[1:])]
		if s == nil {
			return fmt.Errorf("stored answer %x: its session is missing", k)
		}
		s.done = max(s.done, done)
		s.answers[binary.BigEndian.Uint64(k[9:])] = answer
	}
	return nil
}

// startLease gives s its full lease by this replica's clock. Replicas wait differently long, so that
// mostly one of them proposes the end.
func (r *Replica) startLease(s *session) {
	s.deadline = r.now.Mono + r.cfg.Lease + r.cfg.Lease/4*time.Duration(r.cfg.Index)
	r.expireAt = earliest(r.expireAt, s.deadline)
}

// expireSilent proposes the end of sessions whose lease has run out, and further
// reaping that an earlier delivery left.
func (r *Replica) expireSilent() {
	if r.followUp {
		r.followUp = false
		r.multicast(envelope{Kind: envelopeReap})
	}
	if r.expireAt == 0 || r.now.Mono < r.expireAt {
		return
	}
	r.expireAt = 0
	ids := make([]uint64, 0, len(r.sessions))
	for id := range r.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s := r.sessions[id]
		if r.now.Mono >= s.deadline {
			r.multicast(envelope{Kind: envelopeExpire, Expire: expiry{Session: id, Renewals: s.renewals}})
			s.deadline = r.now.Mono + r.cfg.Lease // once more if this one is lost
		}
		r.expireAt = earliest(r.expireAt, s.deadline)
	}
}
