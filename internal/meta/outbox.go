package meta

import (
	"bytes"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Post is a command that this partition wants multicast to another one and itself. It stays in the outbox
// until Posted.
type Post struct {
	Number  uint64
	To      uint16
	Command Command
}

func postKey(number uint64) []byte { return numberKey(prefixPost, number) }

func (m *Machine) post(to uint16, c *Command) {
	m.state.posted++
	m.posts++
	m.keys.Set(postKey(m.state.posted), c.Append(varint.AppendUint(nil, to)))
}

func decodePost(number uint64, b []byte) (Post, error) {
	r := varint.NewReader(bytes.Clone(b))
	p := Post{Number: number, To: r.Uint16()}
	if r.Err() != nil {
		return p, r.Err()
	}
	var err error
	p.Command, err = DecodeCommand(r.Rest())
	return p, err
}

// Outbox gives the oldest posts.
func (m *Machine) Outbox(limit int) []Post {
	if m.posts == 0 {
		return nil // mostly: it is asked for all the time
	}
	var posts []Post
	for key, value := range m.keys.Scan([]byte{prefixPost}, []byte{prefixPost + 1}) {
		if len(posts) >= limit {
			break
		}
		p, err := decodePost(uint64(inoOf(key)), value)
		invariant.Check(err == nil, "stored post %d: %v", inoOf(key), err)
		posts = append(posts, p)
	}
	return posts
}

// Posted removes a post that was ordered, here and at its destination.
func (m *Machine) Posted(number uint64) {
	if m.keys.Get(postKey(number)) != nil {
		m.keys.Delete(postKey(number))
		m.posts--
	}
}

func (m *Machine) countPosts() {
	for range m.keys.Scan([]byte{prefixPost}, []byte{prefixPost + 1}) {
		m.posts++
	}
}

// gone executes OpGone at the home of an inode. It may come before the home has decided the command that took the inode
// to where it lost its last name, and it may come twice.
func (m *Machine) gone(c *Command, counter uint64) Result {
	ino := c.Child
	if ino.Partition() != m.cfg.Partition || c.Target == m.cfg.Partition {
		return Result{}
	}
	_, away := m.forwarding(ino)
	if (away || m.speaks(ino)) && m.keys.Get(orphanKey(ino)) == nil {
		m.recordOrphan(ino, counter)
	}
	return Result{}
}

// released executes OpReleased where an inode is that its home has let go.
func (m *Machine) released(c *Command) Result {
	if n, code := m.inode(c.Child); code == posix.OK && n.Nlink == 0 && n.Ino.Partition() != m.cfg.Partition {
		m.destroy(&n)
	}
	return Result{}
}
