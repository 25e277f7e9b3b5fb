package delegation

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// MaxAdopted is the maximum number of names in an existing directory that a session may get.
const MaxAdopted = 2048

// Ask is a request for an existing directory.
type Ask struct {
	Dir    posix.Ino
	Log    uint64     // number of the session's log
	Number uint64     // the number of the request in the log: higher than the numbers of all earlier requests
	Ctime  posix.Time // the time of change of the directory that the client knows; 0: unknown
	Grant  uint64     // the number of the grant, higher than the numbers of all earlier grants; 0: no number
}

// Answer grants an existing directory to a session, if the directory is free and no other session works in
// it. The grant includes the files in the directory that have no other name. Answer returns false if it
// grants nothing.
//
// Requests of a log are executed in the order of their numbers. So a late copy of a request, which arrives
// after the end of the grant, grants nothing: the client would not expect the grant any more (W3). If the
// session already holds the directory, the client has not received the answer to an earlier request, and has
// changed nothing in the directory since.
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
