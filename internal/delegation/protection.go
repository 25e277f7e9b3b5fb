package delegation

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// After a recall for a bound client, a directory is protected from further recalls for bound clients for
// protectFor. When the directory is held again, it is protected for awayShare times the time for which it was
// not held. So recalls for bound clients keep the directory from its holder for a small part of the time.
// During the protection, updates of bound clients (also of several partitions) and their linearizable queries
// wait. The protection is ordered state, so the limit holds for the requests to all replicas together, and
// also for commands that other partitions coordinate.

const (
	protectFor = posix.Time(1e9)
	awayShare  = 20
	// awayMost is the longest protection. A holder that requests the directory after a longer time did not
	// need it.
	awayMost = posix.Time(10e9)
	// maxProtected is the maximum number of protected directories. Beyond it, the directory whose protection
	// ends first is forgotten.
	maxProtected = 1024
)

// protection is the state of a directory that was recalled for a bound client.
type protection struct {
	since posix.Time // the time of the recall
	until posix.Time
}

// protections has the protected directories of a partition.
type protections struct {
	keys meta.Keys
	dirs map[posix.Ino]protection
}

// until returns the end of the protection of a directory; 0: it has none. A protection that begins after now
// has its time from a replica whose clock is ahead. It is ignored, because it could last for as long as the
// clocks differ.
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
