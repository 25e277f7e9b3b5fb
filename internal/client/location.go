package client

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// What a client remembers of the tree, each in number. All of it may be wrong: the partitions know better
// and say so.
const (
	maxLocations = 1 << 16 // inodes that are not at home
	maxForeign   = 1 << 14 // names of inodes in another partition than their directory
	maxRules     = 1 << 12 // directories with a placement rule
)

// home gives the partition that made an inode and keeps who holds it open: ESTALE if the cluster
// has none.
func (c *Client) home(ino posix.Ino) (*partition, error) { return c.partition(ino.Partition()) }

// at gives the partition where an inode is, as far as is known here.
func (c *Client) at(ino posix.Ino) (*partition, error) {
	if id, ok := c.located.get(ino); ok {
		return c.partition(id)
	}
	return c.home(ino)
}

// partition gives a partition by its number.
func (c *Client) partition(id uint16) (*partition, error) {
	if int(id) < len(c.partitions) {
		return c.partitions[id], nil
	}
	return nil, posix.ESTALE
}

// learn remembers where an inode is. Of one at home only what contradicts it was worth remembering.
func (c *Client) learn(ino posix.Ino, partition uint16) {
	if _, known := c.located.get(ino); known || partition != ino.Partition() {
		c.located.put(ino, partition)
	}
}

// suggest remembers where somebody believes an inode to be, unless something is known.
func (c *Client) suggest(ino posix.Ino, partition uint16) {
	if _, known := c.located.get(ino); !known {
		c.learn(ino, partition)
	}
}

// maxGone bounds how often home is asked for an inode that is not where home says: it is on its way.
const maxGone = 5

// Pauses between tries of a command that others are in the way of.
const (
	firstRetry = 10 * time.Millisecond
	maxRetry   = time.Second
)

// search is the way of one operation to the partition that has an inode.
type search struct {
	client *Client
	ino    posix.Ino
	p      *partition // to ask now
	gone   int        // how often the inode was not where it was believed to be
	wait   time.Duration
}

func (c *Client) search(ino posix.Ino) (*search, error) {
	p, err := c.at(ino)
	return &search{client: c, ino: ino, p: p, wait: firstRetry}, err
}

// goesOn looks at what s.p has answered, and reports whether to try again where s.p is now. If not, the
// error is that of the operation.
func (s *search) goesOn(ctx context.Context, r *meta.Result, err error) (bool, error) {
	switch {
	case err == nil:
		s.client.learn(s.ino, s.p.id)
		return false, nil
	case err == posix.ESTALE && s.p.id != s.ino.Partition() && s.gone < maxGone:
		s.gone++
		return s.turn(s.ino.Partition())
	case err == posix.EREMOTE && r.Attr.Ino == s.ino && r.Number != uint64(s.p.id):
		if s.gone > 1 {
			if err := s.rest(ctx); err != nil {
				return false, err
			}
		}
		return s.turn(uint16(r.Number))
	case err == posix.EREMOTE: // a command of several partitions has it, and is not decided
		err = s.rest(ctx)
		return err == nil, err
	}
	return false, err
}

// turn makes another partition the one to ask.
func (s *search) turn(to uint16) (again bool, err error) {
	s.client.learn(s.ino, to)
	s.p, err = s.client.partition(to)
	return err == nil, err
}

func (s *search) rest(ctx context.Context) error {
	err := pause.Between(ctx, s.wait/2, s.wait)
	s.wait = min(2*s.wait, maxRetry)
	return err
}
