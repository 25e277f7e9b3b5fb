package mount

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// state is what who serves a mount next must know. Caches are not in it.
type state struct {
	Format int    `json:"format"`
	Dir    string `json:"dir"` // where it is mounted
	Terms  terms  `json:"terms"`
	// Root is the directory that is mounted.
	Root posix.Ino `json:"root,omitempty"`
	// Running: the mount may have done more since, and its process has died.
	Running  bool            `json:"running,omitempty"`
	Files    uint64          `json:"files"`              // the number of the file opened last
	Listings uint64          `json:"listings"`           // and of the directory
	Refused  []uint32        `json:"refused,omitempty"`  // threads whose open was given ESTALE just now
	Holders  []holderState   `json:"holders,omitempty"`  // who may have locks
	Requests [][]byte        `json:"requests,omitempty"` // read, and not answered
	Client   json.RawMessage `json:"client"`
}

// holderState is a holder of locks on an inode.
type holderState struct {
	Ino    posix.Ino `json:"ino"`
	File   uint64    `json:"file"`
	Owner  uint64    `json:"owner"`
	Flock  bool      `json:"flock,omitempty"`
	Closed bool      `json:"closed,omitempty"` // just now, perhaps: see locks.flush
	Ending bool      `json:"ending,omitempty"` // its locks are being let go of
}

func (h *holderState) holder() holder { return holder{file: h.File, owner: h.Owner, flock: h.Flock} }

// Formats: one that an older version would go wrong with has another number. That of the whole tree is what the first version knew.
const (
	formatWhole  = 1
	formatSubdir = 2 // Root is given
)

// maxHandle bounds the numbers of open files in a state: from there on a mount cannot be gone on with. None gets there.
const maxHandle = 1 << 62

// decodeState reads a state, and checks all of it but the client's.
func decodeState(b []byte) (*state, error) {
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("mount state: %w", err)
	}
	switch {
	case s.Format == formatWhole:
		s.Root = posix.Root
	case s.Format == formatSubdir && s.Root == 0:
		return nil, fmt.Errorf("mount state: no root")
	case s.Format != formatSubdir:
		return nil, fmt.Errorf("mount state: format %d, this version knows %d and %d: unmount, and mount with the new version", s.Format, formatWhole, formatSubdir)
	}
	switch {
	case s.Files > maxHandle || s.Listings > maxHandle:
		return nil, fmt.Errorf("mount state: file %d, directory %d", s.Files, s.Listings)
	case len(s.Terms.Answered) < outHeaderSize:
		return nil, fmt.Errorf("mount state: no terms")
	}
	for i, raw := range s.Requests {
		if r := (&request{raw: raw}); len(raw) < inHeaderSize || r.unanswered() || r.op() == opInit {
			return nil, fmt.Errorf("mount state: request %d is none that waits for an answer", i)
		}
	}
	return &s, nil
}

// state gives what who serves next must know. left are the requests that were not answered.
func (m *Mount) state(of *client.State, left []*request) ([]byte, error) {
	s := state{
		Format: formatWhole, Dir: m.dir, Terms: m.server.terms, Running: of.Running, Files: m.fs.files.Load(),
		Listings: m.fs.listings.count(), Refused: m.fs.retries.threads(), Holders: m.fs.locks.state(),
	}
	if m.server.root != posix.Root {
		s.Format, s.Root = formatSubdir, m.server.root
	}
	for _, r := range left {
		s.Requests = append(s.Requests, r.raw)
	}
	var err error
	if s.Client, err = json.Marshal(of); err != nil {
		return nil, err
	}
	return json.Marshal(&s)
}

// unknownHandles is more than the handles that a process gives between the last state that it told of and its death.
const unknownHandles = 1 << 32

// adopt goes on with a state. Nothing may be served yet.
func (f *fileSystem) adopt(s *state) {
	if s.Running {
		s.Files += unknownHandles
		s.Listings += unknownHandles
	}
	f.files.Store(s.Files)
	f.listings.last, f.listings.inherited = s.Listings, s.Listings
	for _, thread := range s.Refused {
		f.retries.refused[thread] = time.Now()
	}
	for i := range s.Holders {
		f.locks.adopt(&s.Holders[i])
	}
}

func (l *listings) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// threads gives those whose next open is a retry.
func (r *retries) threads() (threads []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for thread, last := range r.refused {
		if time.Since(last) < retryWithin {
			threads = append(threads, thread)
		}
	}
	return threads
}

// state gives all holders.
func (l *locks) state() (all []holderState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ino, holders := range l.held {
		for h, t := range holders {
			all = append(all, holderState{
				Ino: ino, File: h.file, Owner: h.owner, Flock: h.flock, Closed: time.Since(t.flushed) < closeDelay,
				Ending: l.endings[ino] != nil && l.endings[ino].holders[h] > 0,
			})
		}
	}
	return all
}

// adopt adds a holder of a predecessor.
func (l *locks) adopt(s *holderState) {
	h := s.holder()
	l.end(s.Ino, h, l.begin(s.Ino, h), nil)
	if s.Ending {
		l.leave(unsettled{s.Ino, h, l.ending(s.Ino, h)})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Closed {
		l.held[s.Ino][h].flushed = time.Now()
	}
}
