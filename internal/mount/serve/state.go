package serve

import (
	"encoding/json"
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
)

// State is the information with which another process continues a mount, without caches. Other versions read
// its bytes.
type State struct {
	Format int    `json:"format"`
	Dir    string `json:"dir"` // the mount point
	Terms  Terms  `json:"terms"`
	// Root is the directory of the tree that is mounted.
	Root posix.Ino `json:"root,omitempty"`
	// Running means that the mount may have done more after the state was made, because its process has died
	// later. The file system sets this field and the following ones, except Requests.
	Running  bool            `json:"running,omitempty"`
	Files    uint64          `json:"files"`              // the number of the file opened last
	Listings uint64          `json:"listings"`           // the number of the directory opened last
	Refused  []uint32        `json:"refused,omitempty"`  // threads whose last open was answered with ESTALE
	Holders  []LockOwner     `json:"holders,omitempty"`  // owners that may have locks
	Lost     []Lost          `json:"lost,omitempty"`     // losses of content that open files must still report
	Reported []Reported      `json:"told,omitempty"`     // losses of changes that were reported to programs; the JSON name is older
	Requests [][]byte        `json:"requests,omitempty"` // requests that were read and not answered
	Client   json.RawMessage `json:"client"`
}

// Terms are the protocol between the kernel and the process that mounted, byte by byte.
type Terms struct {
	Request []byte `json:"asked"`    // the kernel's INIT
	Reply   []byte `json:"answered"` // the answer, with its header
}

// LockOwner is an owner of file locks on an inode.
type LockOwner struct {
	Ino    posix.Ino `json:"ino"`
	File   uint64    `json:"file"` // the open file through which it took them
	Owner  uint64    `json:"owner"`
	Flock  bool      `json:"flock,omitempty"`
	Closed bool      `json:"closed,omitempty"` // the file may have been closed just now
	Ending bool      `json:"ending,omitempty"` // its locks are being released
}

// Lost is a loss of content of a file that was not reported to an open file.
type Lost struct {
	Ino  posix.Ino  `json:"ino"`
	File uint64     `json:"file"` // the number of the open file
	Code posix.Code `json:"code"`
}

// Reported is the number of losses that were reported to an open file or directory; with File 0 to the mount
// itself.
type Reported struct {
	File      uint64 `json:"file"`
	Directory bool   `json:"directory,omitempty"`
	Losses    uint64 `json:"losses"`
}

// The formats of a state. A new format is needed if an older version would misread the state. The first
// format is only for mounts of the whole tree.
const (
	formatWhole  = 1
	formatSubdir = 2 // Root is given
)

// maxHandle bounds the numbers of open files in a state: no mount reaches it.
const maxHandle = 1 << 62

// DecodeState decodes a state, and validates all of it but the client's part.
func DecodeState(b []byte) (*State, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("mount state: %w", err)
	}
	switch {
	case s.Format == formatWhole:
		s.Root = posix.Root
	case s.Format == formatSubdir && s.Root == 0:
		return nil, fmt.Errorf("mount state: no root")
	case s.Format != formatSubdir:
		return nil, fmt.Errorf("mount state: format %d, this version knows %d and %d: unmount, and mount with the new version",
			s.Format, formatWhole, formatSubdir)
	}
	switch {
	case s.Files > maxHandle || s.Listings > maxHandle:
		return nil, fmt.Errorf("mount state: file %d, directory %d", s.Files, s.Listings)
	case len(s.Terms.Reply) < outHeaderSize:
		return nil, fmt.Errorf("mount state: no terms")
	}
	for i, raw := range s.Requests {
		if r := (&request{raw: raw}); len(raw) < inHeaderSize || r.unanswered() || r.op() == opInit {
			return nil, fmt.Errorf("mount state: request %d is none that waits for an answer", i)
		}
	}
	return &s, nil
}

// state encodes the mount's state. fill sets the file system's part; postponed are the requests without an
// answer.
func (m *Mount) state(fill func(*State) error, postponed []*request) ([]byte, error) {
	s := State{Format: formatWhole, Dir: m.dir, Terms: m.server.terms}
	if m.server.root != posix.Root {
		s.Format, s.Root = formatSubdir, m.server.root
	}
	if err := fill(&s); err != nil {
		return nil, err
	}
	for _, r := range postponed {
		s.Requests = append(s.Requests, r.raw)
	}
	return json.Marshal(&s)
}
