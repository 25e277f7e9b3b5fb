package delegation

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// MaxAdopted bounds the names of an existing directory that a session may get.
const MaxAdopted = 2048

// Ask asks for an existing directory.
type Ask struct {
	Dir    posix.Ino
	Log    uint64     // number of the session's log
	Number uint64     // of the request in the log: above those of all earlier ones
	Ctime  posix.Time // of the directory as the client knows it; 0: not known
	Grant  uint64     // number for the grant, above those of all earlier grants; 0: the grant gets none
}

// Answer gives an existing directory, with the files that live in it and have no other name, to a session, if
// it is free and nobody else works there. It returns false if it gives nothing.
//
// Requests of a log are executed in the order of their numbers: so an old copy of a request that arrives
// after the end of the grant gives nothing, when the client does not expect it any more (W3). A client that
// holds the directory already has not received the answer to an earlier request. It has changed nothing in
// the directory since.
func (t *Table) Answer(m *meta.Machine, session uint64, a *Ask, now posix.Time) bool {
	if !t.Begin(session, a.Log) {
		return false
	}
	defer t.Save()
	l := t.logs[session]
	if a.Number <= l.lastRequest || l.stopped {
		return false
	}
	l.lastRequest = a.Number
	t.markLog(l)
	if g := t.dirs[a.Dir]; g != nil {
		return g.session == session && !g.recalled
	}
	attr, files, ok := meta.Adoptable(m, a.Dir, MaxAdopted)
	if !ok || a.Ctime != 0 && a.Ctime != attr.Ctime || t.cooling.isHot(a.Dir, now) {
		return false
	}
	if !t.Adopt(session, a.Dir, files) {
		return false
	}
	t.dirs[a.Dir].number = a.Grant
	t.protections.held(a.Dir, now)
	return true
}

// IsOf reports whether a file has lived in an existing directory when that was given to a session that still
// has it, and had no other name.
func (t *Table) IsOf(dir, file posix.Ino) bool {
	g := t.files[file]
	return g != nil && g.dir == dir
}

// Adopt gives an existing directory with files to a session with a log. It returns false if one of them has a
// grant, or if the session has too many.
func (t *Table) Adopt(session uint64, dir posix.Ino, files []posix.Ino) bool {
	for _, ino := range files {
		if t.covering(meta.Object{Ino: ino}) != nil {
			return false
		}
	}
	if !t.Grant(session, dir) {
		return false
	}
	g := t.dirs[dir]
	g.files = files
	for _, ino := range files {
		t.files[ino] = g
	}
	t.storeFiles(g)
	return true
}
