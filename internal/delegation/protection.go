package delegation

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A directory that was recalled for a bound client is protected from the next such recall for protectFor.
// When it is held again, it is protected for awayShare times as long as it was not held, so that recalls by
// bound clients take it from its holder for a small part of the time. Updates, also of several partitions,
// and linearizable queries of bound clients wait meanwhile. The protection is ordered state: the bound holds
// for the requests to all replicas together, and also for commands that replicas of other partitions were
// asked for.

const (
	protectFor = posix.Time(1e9)
	awayShare  = 20
	// awayMost is the longest protection: a holder that asks for the directory later did not miss it.
	awayMost = posix.Time(10e9)
	// maxProtected bounds the directories that are protected. Of more, the one whose protection ends first is
	// forgotten.
	maxProtected = 1024
)

// protection is what is known of a directory that was recalled for a bound client.
type protection struct {
	since posix.Time // of the recall
	until posix.Time
}

// protections has the protected directories of a partition.
type protections struct {
	keys meta.Keys
	dirs map[posix.Ino]protection
}

// until returns the end of the protection of a directory; 0: it has none. A protection that begins after now
// is of a replica with another clock, and does not count: it could last for as long as the clocks differ.
func (p *protections) until(dir posix.Ino, now posix.Time) posix.Time {
	if x := p.dirs[dir]; x.since <= now {
		return x.until
	}
	return 0
}

// recalled records that a directory was recalled.
func (p *protections) recalled(dir posix.Ino, now posix.Time) {
	p.set(dir, protection{now, now + protectFor})
	if len(p.dirs) > maxProtected {
		p.forget()
	}
}

// held records that a directory is held again.
func (p *protections) held(dir posix.Ino, now posix.Time) {
	x, known := p.dirs[dir]
	if !known {
		return
	}
	if until := x.since + min(awayShare*max(now-x.since, 0), awayMost); until > x.until {
		p.set(dir, protection{x.since, until})
	}
}

func (p *protections) set(dir posix.Ino, x protection) {
	p.dirs[dir] = x
	p.keys.Set(key(protectionPrefix, uint64(dir)), varint.AppendInt(varint.AppendInt(nil, int64(x.since)), int64(x.until)))
}

func (p *protections) forget() {
	first := earliest(p.dirs, func(x protection) posix.Time { return x.until })
	delete(p.dirs, first)
	p.keys.Delete(key(protectionPrefix, uint64(first)))
}

func loadProtections(keys meta.Keys) (protections, error) {
	p := protections{keys: keys, dirs: map[posix.Ino]protection{}}
	for key, value := range keys.Scan([]byte{protectionPrefix}, []byte{protectionPrefix + 1}) {
		r := varint.NewReader(value)
		x := protection{posix.Time(r.Int()), posix.Time(r.Int())}
		if r.Done() != nil || len(key) != 9 {
			return p, fmt.Errorf("stored protection of a directory %x: %w", key, varint.ErrMalformed)
		}
		p.dirs[posix.Ino(binary.BigEndian.Uint64(key[1:]))] = x
	}
	return p, nil
}
