package behind

import (
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// made is the state of a new file after its creation.
type made struct {
	attr  posix.Attr
	at    time.Time // time at which this process learned of the creation
	names uint64    // value of Files.names at that time
}

// Created records that a file was made with these attributes and is open.
func (f *Files) Created(handle uint64, attr *posix.Attr) {
	at := f.lock(attr.Ino)
	defer at.mu.Unlock()
	at.reported[handle] = at.failures
	at.made = &made{attr: *attr, at: time.Now(), names: f.names.Load()}
}

// Named records that this mount will change a name, which may change the link counts of files.
func (f *Files) Named() { f.names.Add(1) }

// Ordering records that this mount will order a change of an inode other than its kept content.
func (f *Files) Ordering(ino posix.Ino) {
	at := f.get(ino)
	if at == nil {
		return
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	at.made = nil
}

// keptAttrs are the attributes that may be kept. unchanged are those that must keep their values: the owner
// and the group of a file without set-id bits.
const (
	keptAttrs = unchanged | meta.SetMode | meta.SetAtime | meta.SetMtime
	unchanged = meta.SetUID | meta.SetGID | meta.KillSetID
)

// SetAttr keeps attributes that a user sets on a new file together with its content, which is not ordered
// yet. It returns the attributes of the file. If it reports false, it has kept nothing, and the caller must
// order the content and then the attributes. It keeps only changes that the cluster cannot refuse: those by
// the owner, without a new owner or group, and without set-id bits. The attributes of the new file count as
// known for the time believe.
func (f *Files) SetAttr(ino posix.Ino, cred posix.Cred, set uint32, attr *posix.Attr, believe time.Duration) (posix.Attr, bool) {
	at := f.get(ino)
	if at == nil {
		return posix.Attr{}, false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	r, m := at.current, at.made
	switch {
	case r == nil || r.Append || r.Cred != cred || at.last != nil || at.failures > 0:
	case m == nil || m.names != f.names.Load() || time.Since(m.at) >= believe:
	case !m.allows(cred, set, attr):
	default:
		return r.set(m, set, attr), true
	}
	return posix.Attr{}, false
}

// allows reports whether the cluster certainly permits a user to set the attributes.
func (m *made) allows(cred posix.Cred, set uint32, attr *posix.Attr) bool {
	const setID = posix.SetUID | posix.SetGID
	switch {
	case set == 0 || set&^keptAttrs != 0:
		return false
	case cred.UID != m.attr.UID, set&meta.SetUID != 0 && attr.UID != m.attr.UID, set&meta.SetGID != 0 && attr.GID != m.attr.GID:
		return false
	}
	return m.attr.Mode&setID == 0 && (set&meta.SetMode == 0 || attr.Mode&setID == 0)
}

// set keeps attributes, and returns those of the file. It also sets the time of the last write to the
// estimated time of the server's clock, so that the returned value remains true.
func (r *run) set(m *made, set uint32, attr *posix.Attr) posix.Attr {
	now := m.attr.Ctime + posix.Time(time.Since(m.at))
	if r.Set == 0 {
		r.Set, r.Attr.Mtime = meta.SetMtime, now
	}
	if set&meta.SetMode != 0 {
		r.Attr.Mode = attr.Mode
	}
	if set&meta.SetAtime != 0 {
		r.Attr.Atime = attr.Atime
	}
	if set&meta.SetMtime != 0 {
		r.Attr.Mtime = attr.Mtime
	}
	r.Set |= set &^ unchanged
	a := m.attr
	a.Size, a.Bytes, a.Mtime, a.Ctime = max(a.Size, r.end()), a.Bytes+uint64(r.length), r.Attr.Mtime, max(a.Ctime, now)
	if r.Set&meta.SetMode != 0 {
		a.Mode = a.Mode.Type() | r.Attr.Mode.Perm()
	}
	if r.Set&meta.SetAtime != 0 {
		a.Atime = r.Attr.Atime
	}
	return a
}
