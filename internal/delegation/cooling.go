package delegation

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A directory is hot for a pause after a recall: no session can get it. A recall or change by a bound client
// does not make a directory hot, because the recalls of bound clients are few (package replica), and changes
// of bound clients must not keep the directory from other clients. The pause starts again when a session
// changes the directory less than a pause after a change by another session. Each further recall doubles the
// pause, unless the directory was cold for at least a pause before it.

const (
	firstPause = posix.Time(10e9)
	maxPause   = posix.Time(600e9)
	// maxHot is the maximum number of hot directories. Beyond it, the directory whose pause ends first is
	// forgotten.
	maxHot = 1024
)

// heat is the state of a hot directory.
type heat struct {
	until posix.Time
	pause posix.Time
	last  uint64     // the session that has changed the directory last
	at    posix.Time // the time of this change
}

// cooling has the hot directories of a partition.
type cooling struct {
	keys meta.Keys
	dirs map[posix.Ino]heat
}

// isHot reports whether a directory is hot now.
func (c *cooling) isHot(dir posix.Ino, now posix.Time) bool { return now < c.dirs[dir].until }

// recalled records that a directory was recalled for a session.
func (c *cooling) recalled(dir posix.Ino, session uint64, now posix.Time) {
	pause := firstPause
	if h, known := c.dirs[dir]; known && now < h.until+h.pause {
		pause = min(2*h.pause, maxPause)
	}
	c.set(dir, heat{now + pause, pause, session, now})
	if len(c.dirs) > maxHot {
		c.forget()
	}
}

// changed records that a session changes a directory.
func (c *cooling) changed(dir posix.Ino, session uint64, now posix.Time) {
	h, known := c.dirs[dir]
	if !known {
		return
	}
	if h.last != session && now < h.at+h.pause {
		h.until = max(h.until, now+h.pause)
	}
	h.last, h.at = session, now
	c.set(dir, h)
}

func (c *cooling) set(dir posix.Ino, h heat) {
	c.dirs[dir] = h
	b := varint.AppendUint(varint.AppendInt(nil, int64(h.until)), uint64(h.pause))
	b = varint.AppendInt(varint.AppendUint(b, h.last), int64(h.at))
	c.keys.Set(key(heatPrefix, uint64(dir)), b)
}

func (c *cooling) forget() {
	first := earliest(c.dirs, func(h heat) posix.Time { return h.until })
	delete(c.dirs, first)
	c.keys.Delete(key(heatPrefix, uint64(first)))
}

// earliest returns the directory whose entry ends first. Of several such directories, it returns the one with
// the lowest number.
func earliest[E any](dirs map[posix.Ino]E, end func(E) posix.Time) (first posix.Ino) {
	for dir, e := range dirs {
		at, least := end(e), end(dirs[first])
		if first == 0 || at < least || at == least && dir < first {
			first = dir
		}
	}
	return first
}

func loadCooling(keys meta.Keys) (cooling, error) {
	c := cooling{keys: keys, dirs: map[posix.Ino]heat{}}
	for key, value := range keys.Scan([]byte{heatPrefix}, []byte{heatPrefix + 1}) {
		r := varint.NewReader(value)
		h := heat{posix.Time(r.Int()), posix.Time(r.Uint64()), r.Uint64(), posix.Time(r.Int())}
		if r.Done() != nil || len(key) != 9 {
			return c, fmt.Errorf("stored pause of a directory %x: %w", key, varint.ErrMalformed)
		}
		c.dirs[posix.Ino(binary.BigEndian.Uint64(key[1:]))] = h
	}
	return c, nil
}
