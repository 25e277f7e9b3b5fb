package client

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Create makes the regular file at, and opens it. flags: meta.Exclusive; without it a file that is
// there is opened, and cut with meta.Truncate. Permissions of one that is there are not looked at.
func (c *Client) Create(ctx context.Context, cred posix.Cred, at Name, mode posix.Mode, flags uint32) (posix.Attr, error) {
	told := c.told()
	attr, err := c.make(ctx, &meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: posix.TypeRegular | mode.Perm(), Flags: flags})
	if err != nil {
		return attr, err
	}
	p, err := c.home(attr.Ino)
	if err != nil {
		return attr, err
	}
	if _, err := p.hold(attr.Ino); err != nil {
		return attr, err
	}
	if p.session() != nil && p.told() == told[p.id] {
		return attr, nil
	}
	// It is new to the partition, which has no session of this client, or a renewal without it went out meanwhile.
	c.awaitSession(ctx, p)
	attr, err = c.present(ctx, p, attr.Ino)
	if err == posix.EINTR {
		err = posix.ETIMEDOUT // the file is there
	}
	return attr, err
}

// told counts for each partition how often its replicas were told what is open.
func (c *Client) told() []uint64 {
	told := make([]uint64, len(c.partitions))
	for i, p := range c.partitions {
		told[i] = p.told()
	}
	return told
}

// sessionPatience bounds how long an open waits for a session. Without one the file can be read all
// the same, as on the side of a cut network where nothing can be ordered (T 3.4.1: open for reading is
// not multicast); it is then not kept if it is unlinked meanwhile (C5).
const sessionPatience = 2 * time.Second

// Open holds ino until Release, also if its last name goes, and gives its attributes as of now. ESTALE if it
// is gone, or was unlinked and is not open here.
func (c *Client) Open(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	p, err := c.home(ino)
	if err != nil {
		return posix.Attr{}, err
	}
	c.awaitSession(ctx, p)
	before, err := p.hold(ino)
	if err != nil {
		return posix.Attr{}, err
	}
	if before == 0 {
		return c.present(ctx, p, ino)
	}
	attr, err := c.GetAttr(ctx, ino)
	if err != nil {
		p.release(ino)
	}
	return attr, err
}

func (c *Client) awaitSession(ctx context.Context, p *partition) {
	if p.session() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(sessionPatience, c.cfg.Timeout))
	defer cancel()
	if _, err := c.session(ctx, p); err != nil {
		c.events.warn("no session", "a file is opened without a session: its partition takes no updates now; if others remove it, it is lost here too",
			"partition", p.id, "path", p.path, "error", err)
	}
}

// present makes sure that an inode that was held just now has a name: then the partition keeps
// it. Otherwise it releases it.
func (c *Client) present(ctx context.Context, p *partition, ino posix.Ino) (posix.Attr, error) {
	attr, err := c.GetAttr(ctx, ino)
	if err == nil && attr.Nlink == 0 {
		err = posix.ESTALE
	}
	if err != nil {
		p.release(ino)
	}
	return attr, err
}

// OpenUnlinked is Open of an inode that may have lost its last name after it was looked up, as in a race
// with a rename that replaces it. It is kept if it is still there once the partition has ordered that it is
// open here.
func (c *Client) OpenUnlinked(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	p, err := c.home(ino)
	if err != nil {
		return posix.Attr{}, err
	}
	if _, err := p.hold(ino); err != nil {
		return posix.Attr{}, err
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	s, err := c.session(ctx, p)
	if err == nil {
		err = c.renew(ctx, p, s)
	}
	look := &meta.Command{Op: meta.OpGetAttr, Ino: ino}
	var a answer
	if err == nil {
		// Home decides, also of one that is elsewhere: there it may still be when home has let it go.
		a, err = c.askIn(ctx, p, look)
	}
	if err == posix.EREMOTE {
		a, err = c.askAt(ctx, look)
	}
	if err != nil {
		p.release(ino)
	}
	return a.Attr, c.outcome(err)
}

// Hold is Open without looking: for a directory, which has its name or shows nothing.
func (c *Client) Hold(ino posix.Ino) error {
	p, err := c.home(ino)
	if err != nil {
		return err
	}
	_, err = p.hold(ino)
	return err
}

// Release undoes one Create, Open or Hold.
func (c *Client) Release(ino posix.Ino) {
	if p, err := c.home(ino); err == nil {
		p.release(ino)
	}
}
