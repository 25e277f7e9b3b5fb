package delegation

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

const (
	// SpanSize is the number of inode numbers of a span.
	SpanSize = 256
	// SpansPerGrant is the number of spans that an OpDelegate gives to a session.
	SpansPerGrant = 64
	// MaxGrants bounds the grants of a session.
	MaxGrants = 4096
)

const (
	grantPrefix = byte(0x4a)
	logPrefix   = byte(0x4b)
	filesPrefix = byte(0x4c)
	heatPrefix  = byte(0x4d)

	protectionPrefix = byte(0x4e)
)

// grant is a directory that a session holds.
type grant struct {
	dir      posix.Ino
	session  uint64
	number   uint64 // names the grant among those of the directory; 0: none (Revocation)
	recalled bool
	spans    []span
	files    []posix.Ino // of an existing directory: those that lived in it at the grant; stored by themselves
	worked   posix.Time  // when the session got it, or changed something there; not stored
	dirty    bool        // not stored
}

// span is SpanSize numbers from first on.
type span struct {
	first posix.Ino
	used  posix.Ino // the last one that an inode has got; 0: none
}

// log is the replicated state of a session's log.
type log struct {
	session     uint64
	number      uint64
	next        uint64 // the operation to be executed next, from 1
	stopped     bool   // an operation had another outcome than the client expects
	lastRequest uint64 // the newest request for an existing directory
	grants      int
	spare       []posix.Ino // the first numbers of spans without a grant
	dirty       bool
}

// Table has the grants of one partition. It is not safe for concurrent use.
type Table struct {
	keys   meta.Keys
	dirs   map[posix.Ino]*grant
	spans  map[posix.Ino]*grant // by number / SpanSize
	files  map[posix.Ino]*grant // by file that lived in an existing directory
	logs   map[uint64]*log      // by session
	recall map[posix.Ino]*grant // the recalled ones
	ended  []posix.Ino          // directories with grants that have ended since the last TakeEnded

	cooling     cooling
	protections protections

	unsavedGrants []*grant // those that are dirty, and some that have ended
	unsavedLogs   []*log
}

// Load reads the grants that keys hold.
func Load(keys meta.Keys) (*Table, error) {
	t := &Table{
		keys: keys, dirs: map[posix.Ino]*grant{}, spans: map[posix.Ino]*grant{}, logs: map[uint64]*log{},
		files: map[posix.Ino]*grant{}, recall: map[posix.Ino]*grant{},
	}
	var err error
	if t.cooling, err = loadCooling(keys); err != nil {
		return nil, err
	}
	if t.protections, err = loadProtections(keys); err != nil {
		return nil, err
	}
	for key, value := range keys.Scan([]byte{logPrefix}, []byte{logPrefix + 1}) {
		l, err := readLog(key, value)
		if err != nil {
			return nil, err
		}
		t.logs[l.session] = l
	}
	for key, value := range keys.Scan([]byte{grantPrefix}, []byte{grantPrefix + 1}) {
		g, err := readGrant(key, value)
		if err == nil && t.logs[g.session] == nil {
			err = fmt.Errorf("stored grant of directory %d: its session %d has no log", g.dir, g.session)
		}
		if err == nil {
			g.files, err = readFiles(keys, g.dir)
		}
		if err != nil {
			return nil, err
		}
		t.add(g)
	}
	return t, nil
}

// Clear removes all grants and logs from keys: no session is open any more.
func Clear(keys meta.Keys) {
	for key := range keys.Scan([]byte{grantPrefix}, []byte{protectionPrefix + 1}) {
		keys.Delete(key)
	}
}

func key(prefix byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, number)
}

func (t *Table) add(g *grant) {
	t.dirs[g.dir] = g
	for _, s := range g.spans {
		t.spans[s.first/SpanSize] = g
	}
	for _, ino := range g.files {
		t.files[ino] = g
	}
	if g.recalled {
		t.recall[g.dir] = g
	}
	t.logs[g.session].grants++
}

// end ends a grant.
func (t *Table) end(g *grant) {
	delete(t.dirs, g.dir)
	delete(t.recall, g.dir)
	for _, s := range g.spans {
		delete(t.spans, s.first/SpanSize)
	}
	t.logs[g.session].grants--
	if len(g.files) > 0 {
		for _, ino := range g.files {
			delete(t.files, ino)
		}
		t.keys.Delete(key(filesPrefix, uint64(g.dir)))
	}
	t.keys.Delete(key(grantPrefix, uint64(g.dir)))
	g.dirty, t.ended = false, append(t.ended, g.dir)
}

// covering returns the grant that covers an object; nil: the object is free.
func (t *Table) covering(o meta.Object) *grant {
	if o.IsDir {
		return t.dirs[o.Ino]
	}
	if g := t.files[o.Ino]; g != nil {
		return g
	}
	return t.spans[o.Ino/SpanSize]
}

// IsHeld reports whether a session holds an object.
func (t *Table) IsHeld(o meta.Object) bool { return t.covering(o) != nil }

// Covers reports whether the given session holds an object.
func (t *Table) Covers(session uint64, o meta.Object) bool {
	g := t.covering(o)
	return g != nil && g.session == session
}

// CoversAll reports whether a session holds all of some objects, and at least one.
func (t *Table) CoversAll(session uint64, all []meta.Object) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(o meta.Object) bool { return !t.Covers(session, o) })
}

// IsIdle reports whether Recall does nothing.
func (t *Table) IsIdle() bool { return len(t.dirs) == 0 && len(t.cooling.dirs) == 0 }

// Recall reports whether an update of a session that is not of a batch touches a covered object: then it must
// wait. The directories of these grants are recalled from now on. session 0 is one of a bound client: it
// recalls nothing while one of these directories is protected.
func (t *Table) Recall(touched []meta.Object, session uint64, now posix.Time) (met bool) {
	if session == 0 && now < t.ProtectedUntil(touched, now) {
		return true
	}
	for _, o := range touched {
		g := t.covering(o)
		met = met || g != nil
		switch {
		case g == nil && session != 0:
			t.cooling.changed(o.Ino, session, now)
		case g != nil && !g.recalled:
			g.recalled, t.recall[g.dir] = true, g
			t.mark(g)
			if session == 0 {
				t.protections.recalled(g.dir, now)
			} else {
				t.cooling.recalled(g.dir, session, now)
			}
		}
	}
	t.Save()
	return met
}

// ProtectedUntil returns the time until which Recall for a bound client recalls none of some objects, because
// one is protected and not recalled; it is not after now if Recall recalls them.
func (t *Table) ProtectedUntil(touched []meta.Object, now posix.Time) (until posix.Time) {
	for _, o := range touched {
		if g := t.covering(o); g != nil && !g.recalled {
			until = max(until, t.protections.until(g.dir, now))
		}
	}
	return until
}

// Awaits reports whether an update must wait, and Recall would change nothing.
func (t *Table) Awaits(touched []meta.Object) (met bool) {
	for _, o := range touched {
		if g := t.covering(o); g != nil {
			if !g.recalled {
				return false
			}
			met = true
		}
	}
	return met
}

// Worked records that the session which holds an inode, if one does, works there at a time of the order.
func (t *Table) Worked(ino posix.Ino, now posix.Time) {
	if g := t.covering(meta.Object{Ino: ino, IsDir: t.dirs[ino] != nil}); g != nil {
		g.worked = now
	}
}

// IsWorkedIn reports whether the session which holds one of some objects has worked there since a time, as
// far as this process has executed that.
func (t *Table) IsWorkedIn(touched []meta.Object, since posix.Time) bool {
	return slices.ContainsFunc(touched, func(o meta.Object) bool {
		g := t.covering(o)
		return g != nil && g.worked >= since
	})
}

// Holders returns the directories of the grants that cover some objects, in their order.
func (t *Table) Holders(touched []meta.Object) (dirs []posix.Ino) {
	for _, o := range touched {
		if g := t.covering(o); g != nil && !slices.Contains(dirs, g.dir) {
			dirs = append(dirs, g.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// Recalled returns the recalled directories of a session, in their order; of all sessions if session is 0.
func (t *Table) Recalled(session uint64) (dirs []posix.Ino) {
	for dir, g := range t.recall {
		if session == 0 || g.session == session {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// Dirs returns the directories of a session, in their order.
func (t *Table) Dirs(session uint64) (dirs []posix.Ino) {
	for dir, g := range t.dirs {
		if g.session == session {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// Holder returns the session that holds a directory; 0: it is free.
func (t *Table) Holder(dir posix.Ino) uint64 {
	if g := t.dirs[dir]; g != nil {
		return g.session
	}
	return 0
}

// Len returns the number of grants.
func (t *Table) Len() int { return len(t.dirs) }

// TakeEnded returns the directories with grants that have ended since its last call.
func (t *Table) TakeEnded() []posix.Ino {
	ended := t.ended
	t.ended = nil
	return ended
}

// Begin makes number the log of a session. A log that is newer than the last one ends all grants of the
// session. Begin reports false for an older log.
func (t *Table) Begin(session, number uint64) bool {
	l := t.logs[session]
	switch {
	case l == nil:
		l = &log{session: session}
		t.logs[session] = l
	case number < l.number:
		return false
	case number == l.number:
		return true
	}
	t.endAll(session)
	l.number, l.next, l.stopped, l.lastRequest = number, 1, false, 0
	t.markLog(l)
	return true
}

// Grant gives a new directory to a session with a log. It reports false if the session has too many.
func (t *Table) Grant(session uint64, dir posix.Ino) bool {
	if t.logs[session].grants >= MaxGrants || t.dirs[dir] != nil {
		return false
	}
	g := &grant{dir: dir, session: session}
	t.add(g)
	t.mark(g)
	return true
}

// AddNumbers gives SpansPerGrant spans to a session with a log.
func (t *Table) AddNumbers(session uint64, first posix.Ino) {
	l := t.logs[session]
	for i := range posix.Ino(SpansPerGrant) {
		l.spare = append(l.spare, first+i*SpanSize)
	}
	t.markLog(l)
}

// Revoke ends the grant of a directory, if the session has it.
func (t *Table) Revoke(session uint64, dir posix.Ino) {
	if g := t.dirs[dir]; g != nil && g.session == session {
		t.end(g)
	}
}

// EndSession ends the log of a session, with all grants.
func (t *Table) EndSession(session uint64) {
	if t.logs[session] == nil {
		return
	}
	t.endAll(session)
	t.logs[session].dirty = false
	delete(t.logs, session)
	t.keys.Delete(key(logPrefix, session))
}

func (t *Table) endAll(session uint64) {
	if t.logs[session].grants == 0 {
		return
	}
	for _, dir := range t.Dirs(session) {
		t.end(t.dirs[dir])
	}
}

// mark records that a grant is to be stored.
func (t *Table) mark(g *grant) {
	if !g.dirty {
		g.dirty = true
		t.unsavedGrants = append(t.unsavedGrants, g)
	}
}

// markLog records that a log is to be stored.
func (t *Table) markLog(l *log) {
	if !l.dirty {
		l.dirty = true
		t.unsavedLogs = append(t.unsavedLogs, l)
	}
}

// Save stores what has changed.
func (t *Table) Save() {
	for _, g := range t.unsavedGrants {
		if g.dirty {
			g.dirty = false
			t.keys.Set(key(grantPrefix, uint64(g.dir)), g.encode())
		}
	}
	for _, l := range t.unsavedLogs {
		if l.dirty {
			l.dirty = false
			t.keys.Set(key(logPrefix, l.session), l.encode())
		}
	}
	t.unsavedGrants, t.unsavedLogs = t.unsavedGrants[:0], t.unsavedLogs[:0]
}

func (g *grant) encode() []byte {
	b := varint.AppendUint(nil, g.session)
	b = varint.AppendUint(b, varint.Bit(g.recalled))
	b = varint.AppendUint(b, uint64(len(g.spans)))
	for _, s := range g.spans {
		b = varint.AppendUint(varint.AppendUint(b, s.first), s.used)
	}
	if g.number != 0 {
		b = varint.AppendUint(b, g.number)
	}
	return b
}

func readGrant(key, value []byte) (*grant, error) {
	r := varint.NewReader(value)
	g := &grant{session: r.Uint64(), recalled: r.Uint(1) == 1}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		g.spans = append(g.spans, span{posix.Ino(r.Uint64()), posix.Ino(r.Uint64())})
	}
	if r.Len() > 0 {
		g.number = r.Uint64()
	}
	if r.Done() != nil || len(key) != 9 {
		return nil, fmt.Errorf("stored grant %x: %w", key, varint.ErrMalformed)
	}
	g.dir = posix.Ino(binary.BigEndian.Uint64(key[1:]))
	return g, nil
}

func (l *log) encode() []byte {
	b := varint.AppendUint(varint.AppendUint(nil, l.number), l.next)
	b = varint.AppendUint(b, varint.Bit(l.stopped))
	b = varint.AppendUint(b, uint64(len(l.spare)))
	for _, first := range l.spare {
		b = varint.AppendUint(b, first)
	}
	return varint.AppendUint(b, l.lastRequest)
}

func readLog(key, value []byte) (*log, error) {
	r := varint.NewReader(value)
	l := &log{number: r.Uint64(), next: r.Uint64(), stopped: r.Uint(1) == 1}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		l.spare = append(l.spare, posix.Ino(r.Uint64()))
	}
	if r.Len() > 0 { // not in a log that an older version has stored
		l.lastRequest = r.Uint64()
	}
	if r.Done() != nil || len(key) != 9 {
		return nil, fmt.Errorf("stored log %x: %w", key, varint.ErrMalformed)
	}
	l.session = binary.BigEndian.Uint64(key[1:])
	return l, nil
}

// storeFiles stores the files of a grant. They do not change.
func (t *Table) storeFiles(g *grant) {
	if len(g.files) == 0 {
		return
	}
	b := varint.AppendUint(nil, uint64(len(g.files)))
	for _, ino := range g.files {
		b = varint.AppendUint(b, ino)
	}
	t.keys.Set(key(filesPrefix, uint64(g.dir)), b)
}

func readFiles(keys meta.Keys, dir posix.Ino) (files []posix.Ino, err error) {
	value := keys.Get(key(filesPrefix, uint64(dir)))
	if value == nil {
		return nil, nil
	}
	r := varint.NewReader(value)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		files = append(files, posix.Ino(r.Uint64()))
	}
	if r.Done() != nil {
		return nil, fmt.Errorf("stored files of directory %d: %w", dir, varint.ErrMalformed)
	}
	return files, nil
}
