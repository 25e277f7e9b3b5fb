package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/posix"
)

// maxFollowing bounds the files whose blocks wait to be brought after them. Those of more are brought by readers.
const maxFollowing = 1 << 12

// movedFile is a file that this client has moved to a partition.
type movedFile struct {
	ino posix.Ino
	to  uint16
}

// follow has the blocks of a file that has moved brought to where the partition has its own, in the background (T 3.8). What is lost of that,
// with this client for instance, readers bring.
func (c *Client) follow(ino posix.Ino, to uint16) {
	select {
	case c.following <- movedFile{ino, to}:
	default:
	}
}

// followUntilClosed brings the blocks of one file after the other.
func (c *Client) followUntilClosed(life context.Context) {
	for {
		select {
		case <-life.Done():
			return
		case f := <-c.following:
			if err := c.CopyBlocks(life, f.ino, f.to); err != nil && life.Err() == nil {
				c.events.logger.Debug("the blocks of a file that has moved could not all be brought to it: readers fetch them from where they are",
					"inode", f.ino, "partition", f.to, "error", err)
			}
		}
	}
}
