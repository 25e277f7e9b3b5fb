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

// A post is a message to another partition to do something that cannot fail. It is stored in the same batch
// as the change that causes it, and stays in the outbox until the other partition has acknowledged it. The
// posts to one partition have the numbers 1, 2, 3 and so on. That partition executes them in this order, each
// once, because it stores the number of the last executed one. So posts may be sent repeatedly.

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

// postBy is post for a caller that stores p itself.
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

// Destinations returns the partitions that have not acknowledged all posts to them, ascending.
func (m *Machine) Destinations() []uint16 {
	if len(m.posts) == 0 {
		return nil // the usual case, on each step
	}
	return slices.Sorted(maps.Keys(m.posts))
}

// Outbox returns the oldest posts to a partition that it has not acknowledged: at most limit, in order,
// without gaps.
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

// LastPost returns the number of the newest post to a partition.
func (m *Machine) LastPost(to uint16) uint64 { return m.peer(to).posted }

// Posted deletes the posts to a partition up to a number, because the partition has executed them.
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

// ExecutePosts executes posts of another partition, with the numbers first, first+1 and so on, at time now;
// counter is that of Apply. It skips posts that were executed before. It executes none if a post before first
// is missing. It returns the number of the last executed post of that partition, to be acknowledged.
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
			p := m.peer(from) // the post may have caused further posts
			p.executed, done = number, number
			m.setPeer(from, &p)
		}
	}
	m.saveState()
	return done
}

// PostsExecuted returns the number of the last executed post of another partition; 0: none.
func (m *Machine) PostsExecuted(from uint16) uint64 { return m.peer(from).executed }

// executePost executes one post. If c is no post, it comes from another version and has no effect.
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

// gone executes OpGone at the home of an inode. It may be executed before the home has decided the command
// that moved the inode to the partition in which it lost its last name.
func (m *Machine) gone(c *Command, counter uint64) {
	ino := c.Child
	if ino.Partition() != m.cfg.Partition || c.Target == m.cfg.Partition {
		return
	}
	_, away := m.forwarding(ino)
	if (away || m.undecided.concerns(ino)) && m.keys.Get(orphanKey(ino)) == nil {
		m.recordOrphan(ino, counter)
	}
}

// released executes OpReleased in the partition of an inode whose home has released it. An inode that has a
// name again is kept.
func (m *Machine) released(c *Command) {
	if n, code := m.inode(c.Child); code == posix.OK && n.Nlink == 0 && n.Ino.Partition() != m.cfg.Partition {
		m.destroy(&n)
	}
}
