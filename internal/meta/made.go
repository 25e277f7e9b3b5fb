package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// Something new in another partition than its directory needs no votes (thesis section 3.4.1, uncoordinated). The command
// brings all that the inode is made of: a reserved number, and mode and group as its client expects them of the directory.
//
//   - The partition of the directory decides alone, at the command's place in the order between partitions: Enter.
//   - The partition of the inode makes it there unconditionally: Make.
//   - If the first does not come to name the inode, it posts OpUnmake, and the second unmakes what it has made.
//
// Both come to the same although neither asks the other:
//
//   - Nobody knows the number before the directory's partition has answered, except the client that chose it and
//     does not speak of it. So until then nothing can depend on the inode, and what nobody will ever be told of can be unmade
//     at any time later.
//   - Who is told of it has seen the command's place, and waits at the inode's partition until that is past it
//     (package replica). A command of other partitions that is ordered there before it all the same finds
//     the inode missing: EREMOTE, and its client tries again.
//   - The same command may be ordered twice. Both partitions have both in the same order, the first message uses up the reservation,
//     and so the second makes nothing; the first partition knows it by its session. If the session has ended in
//     between, or the client has said that it is done, that partition cannot know and refuses the second one: its OpUnmake names
//     the message (by), and only what that one has made is unmade. The inode remembers the message until somebody changes it, who thus
//     knows of it.
//   - A number that was sent once is never used again, whatever became of it. Clients are trusted with that: one that may not speak
//     for everybody could name the inode of somebody else by it, and then remove it. Its commands are voted on.
//
// The post is stored with the refusal, so a crash between the two orders loses neither.

// IsUncoordinated reports whether an update of parties, of which asked answers, is executed by Enter and Make. It does not look
// at any state: all parties give the same.
func (c *Command) IsUncoordinated(asked uint16, parties []uint16) bool {
	return c.Op == OpMknod && c.Authority == nil && c.Child != 0 && c.Child.Partition() == c.Target && c.Child.Counter() > 1 &&
		asked != c.Target && len(parties) == 2 && slices.Contains(parties, asked) && slices.Contains(parties, c.Target)
}

// Foresee completes an OpMknod by what the new inode will have from its directory.
func (c *Command) Foresee(dir *posix.Attr) {
	n, _ := newInode(c, &inode{Attr: *dir})
	c.Set = SetMode | SetGID
	c.Attr = posix.Attr{Mode: n.Mode, GID: n.GID}
}

// Enter executes c, which IsUncoordinated, at the directory. by names the message, for ever. Without success, and if something
// else has the name, the inode is told to be unmade.
func (m *Machine) Enter(c *Command, by []byte) Result {
	var r Result
	if ino, blocked := m.blocked(c); blocked {
		r = elsewhere(ino, m.cfg.Partition)
	} else {
		m.now = c.Time
		r = m.located(c, m.enter(c))
	}
	if r.Code != posix.OK || r.Attr.Ino != c.Child {
		m.Disown(c, by)
	}
	m.saveState()
	return r
}

func (m *Machine) enter(c *Command) Result {
	s := m.look(c)
	n, code := s.checkMknod(c)
	switch {
	case code != posix.OK:
		return m.refuse(c, &s, code)
	case s.source.ino != 0:
		return m.open(c, &s.source)
	case s.place != c.Target:
		return Result{Code: posix.EREMOTE, Number: uint64(s.place)}
	case n.Mode != c.Attr.Mode || n.GID != c.Attr.GID:
		return elsewhere(c.Ino, m.cfg.Partition)
	}
	n.Ino = c.Child
	m.named(c, &s, &n, c.Target)
	return Result{Attr: n.Attr, Number: uint64(c.Target)}
}

// Disown has the inode unmade that Make makes of c: it gets no name here.
func (m *Machine) Disown(c *Command, by []byte) {
	m.post(c.Target, &Command{Op: OpUnmake, Child: c.Child, Data: by})
	m.saveState()
}

// Make executes c, which IsUncoordinated, where the inode is to be. What has no reservation was made by an earlier message.
func (m *Machine) Make(c *Command, by []byte) {
	if !m.takeReserved(c.Child) {
		return
	}
	n, code := newInode(c, &inode{Attr: posix.Attr{Ino: c.Ino}})
	if code != posix.OK || n.Mode.Type() != c.Attr.Mode.Type() {
		return // what the directory refuses, too
	}
	n.Ino, n.Mode, n.GID = c.Child, c.Attr.Mode, c.Attr.GID
	n.by = string(by)
	m.state.inodes++
	m.keys.Set(inodeKey(n.Ino), n.encode())
	m.saveState()
}

// unmake executes OpUnmake where the inode is. What an undecided command speaks of was guessed, by nobody who is to be helped.
func (m *Machine) unmake(c *Command) Result {
	n, code := m.inode(c.Child)
	if code == posix.OK && n.by != "" && n.by == string(c.Data) && !m.speaks(n.Ino) {
		m.destroy(&n)
	}
	return Result{}
}
