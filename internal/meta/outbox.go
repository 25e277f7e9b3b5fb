package meta

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A post tells another partition to do something that cannot fail. It is stored together with its cause, and
// stays in the outbox until the other partition has acknowledged it. Posts to one partition have the numbers
// 1, 2, 3 and so on, and are executed there in this order, each once: that partition stores which one was the
// last. So a post may be sent as often as one likes.

// Post is a post in the outbox.
type Post struct {
	Number  uint64
	Command Command
}

const postKeyLength = 11

func postKey(to uint16, number uint64) []byte {
	k := binary.BigEndian.AppendUint16(append(make([]byte, 0, postKeyLength), prefixPost), to)
	return binary.BigEndian.AppendUint64(k, number)
}

func (m *Machine) post(to uint16, c *Command) {
	p := m.peer(to)
	m.postBy(to, &p, c)
	m.setPeer(to, &p)
}

// postBy is post for a caller that stores p.
func (m *Machine) postBy(to uint16, p *peer, c *Command) {
	p.posted++
	m.posts[to]++
	m.keys.Set(postKey(to, p.posted), c.Append(nil))
}

func decodePost(key, value []byte) (Post, error) {
	p := Post{Number: binary.BigEndian.Uint64(key[3:])}
	var err error
	p.Command, err = DecodeCommand(bytes.Clone(value))
	if err == nil && !p.Command.Op.IsPost() {
		err = varint.ErrMalformed
	}
	return p, err
}

// Destinations gives the partitions that have not acknowledged all posts to them, in their order.
func (m *Machine) Destinations() []uint16 {
	if len(m.posts) == 0 {
		return nil // mostly: it is asked for all the time
	}
	return slices.Sorted(maps.Keys(m.posts))
}

// Outbox gives the oldest posts to a partition that it has not acknowledged, at most limit, in their order
// and without gaps.
func (m *Machine) Outbox(to uint16, limit int) (posts []Post) {
	if m.posts[to] == 0 {
		return nil
	}
	for key, value := range m.keys.Scan(postKey(to, 0), postKey(to, 1<<64-1)) {
		if len(posts) >= limit {
			break
		}
		p, err := decodePost(key, value)
		invariant.Check(err == nil, "stored post %d to partition %d: %v", p.Number, to, err)
		invariant.Check(len(posts) == 0 || posts[len(posts)-1].Number+1 == p.Number, "posts to partition %d: %d is missing", to, p.Number-1)
		posts = append(posts, p)
	}
	return posts
}

// LastPost gives the number of the newest post to a partition.
func (m *Machine) LastPost(to uint16) uint64 { return m.peer(to).posted }

// Posted deletes the posts to a partition up to a number: it has executed them.
func (m *Machine) Posted(to uint16, upTo uint64) {
	if m.posts[to] == 0 {
		return
	}
	for key := range m.keys.Scan(postKey(to, 0), postKey(to, 1<<64-1)) {
		if binary.BigEndian.Uint64(key[3:]) > upTo {
			break
		}
		m.keys.Delete(key)
		if m.posts[to]--; m.posts[to] == 0 {
			delete(m.posts, to)
		}
	}
}

func (m *Machine) countPosts() {
	for key := range m.keys.Scan([]byte{prefixPost}, []byte{prefixPost + 1}) {
		m.posts[partitionOf(key)]++
	}
}

// ExecutePosts executes posts of another partition, with the numbers first, first+1 and so on, at time now
// and with a counter as of Apply. It skips posts that were executed before. If a post before first was not
// executed it executes none. It gives the number of the last post of that partition that was executed, for
// the acknowledgement.
func (m *Machine) ExecutePosts(from uint16, first uint64, posts []Command, now posix.Time, counter uint64) (upTo uint64) {
	done := m.peer(from).executed
	if from == m.cfg.Partition || first > done+1 {
		return done
	}
	for i := range posts {
		if number := first + uint64(i); number == done+1 {
			c := posts[i]
			c.Time, m.now = now, now
			m.executePost(from, &c, counter)
			p := m.peer(from) // the post may have caused others
			p.executed, done = number, number
			m.setPeer(from, &p)
		}
	}
	m.saveState()
	return done
}

// PostsExecuted returns the number of the last post of another partition that was executed; 0 if none was.
func (m *Machine) PostsExecuted(from uint16) uint64 { return m.peer(from).executed }

// executePost executes one post. One that is none comes from a partition of another version: it has no
// effect.
func (m *Machine) executePost(from uint16, c *Command, counter uint64) {
	switch c.Op {
	case OpGone:
		m.gone(c, counter)
	case OpReleased:
		m.released(c)
	case OpDropped:
		m.droppedAway(c)
	case OpNumbers:
		m.grant(from, c)
	case OpGranted:
		m.granted(from, c)
	case OpMake:
		m.makeNamed(c)
	}
}

// gone executes OpGone at the home of an inode. It may come before the home has decided the command that took
// the inode to where it lost its last name.
func (m *Machine) gone(c *Command, counter uint64) {
	ino := c.Child
	if ino.Partition() != m.cfg.Partition || c.Target == m.cfg.Partition {
		return
	}
	_, away := m.forwarding(ino)
	if (away || m.undecided.speaks(ino)) && m.keys.Get(orphanKey(ino)) == nil {
		m.recordOrphan(ino, counter)
	}
}

// released executes OpReleased where an inode is that its home has let go. One that has a name again is left
// alone.
func (m *Machine) released(c *Command) {
	if n, code := m.inode(c.Child); code == posix.OK && n.Nlink == 0 && n.Ino.Partition() != m.cfg.Partition {
		m.destroy(&n)
	}
}
