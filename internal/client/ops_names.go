package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Lookup gives the attributes of what name in dir names.
func (c *Client) Lookup(ctx context.Context, dir posix.Ino, name string) (posix.Attr, error) {
	r, err := c.query(ctx, &meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
	if err != nil || r.Attr.Ino.Partition() == dir.Partition() {
		return r.Attr, err
	}
	return c.GetAttr(ctx, r.Attr.Ino) // its own partition knows the rest
}

// Mknod makes a file of any type but directory and symlink.
func (c *Client) Mknod(ctx context.Context, cred posix.Cred, at Name, mode posix.Mode, rdev uint32) (posix.Attr, error) {
	return c.make(ctx, &meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: mode, Rdev: rdev, Flags: meta.Exclusive})
}

// Mkdir makes a directory; mode holds permissions only.
func (c *Client) Mkdir(ctx context.Context, cred posix.Cred, at Name, mode posix.Mode) (posix.Attr, error) {
	return c.make(ctx, &meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: posix.TypeDir | mode.Perm()})
}

// Symlink makes a symbolic link.
func (c *Client) Symlink(ctx context.Context, cred posix.Cred, at Name, target string) (posix.Attr, error) {
	if len(target) > posix.MaxTarget {
		return posix.Attr{}, posix.ENAMETOOLONG
	}
	return c.make(ctx, &meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: posix.TypeSymlink | 0o777, Data: []byte(target)})
}

func (c *Client) make(ctx context.Context, cmd *meta.Command) (posix.Attr, error) {
	cmd.Op = meta.OpMknod
	r, err := c.update(ctx, cmd.Ino, cmd)
	return r.Attr, err
}

// Name is a place in the tree: a name in a directory.
type Name struct {
	Dir  posix.Ino
	Name string
}

// Link gives ino another name. EXDEV if it lives in another partition than the directory.
func (c *Client) Link(ctx context.Context, cred posix.Cred, ino posix.Ino, to Name) (posix.Attr, error) {
	r, err := c.update(ctx, to.Dir, &meta.Command{Op: meta.OpLink, Cred: cred, Ino: ino, NewParent: to.Dir, NewName: to.Name})
	return r.Attr, err
}

// Unlink removes a name of what is not a directory.
func (c *Client) Unlink(ctx context.Context, cred posix.Cred, at Name) error {
	_, err := c.update(ctx, at.Dir, &meta.Command{Op: meta.OpUnlink, Cred: cred, Ino: at.Dir, Name: at.Name})
	return err
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, cred posix.Cred, at Name) error {
	_, err := c.update(ctx, at.Dir, &meta.Command{Op: meta.OpRmdir, Cred: cred, Ino: at.Dir, Name: at.Name})
	return err
}

// Rename moves a name; flags are meta.RenameNoReplace and meta.RenameExchange. EXDEV if the
// directories live in two partitions.
func (c *Client) Rename(ctx context.Context, cred posix.Cred, from, to Name, flags uint32) error {
	_, err := c.update(ctx, from.Dir, &meta.Command{
		Op: meta.OpRename, Cred: cred, Ino: from.Dir, Name: from.Name, NewParent: to.Dir, NewName: to.Name, Flags: flags,
	})
	return err
}

// Readlink gives the target of a symbolic link.
func (c *Client) Readlink(ctx context.Context, ino posix.Ino) ([]byte, error) {
	r, err := c.query(ctx, &meta.Command{Op: meta.OpReadlink, Ino: ino})
	return r.Data, err
}

// ReadDir gives at most limit entries of dir after the cookie of an earlier entry, from the start
// if it is 0; none are left if it gives none. Of an inode in another partition only number and
// type are known: GetAttr gives the rest. The entries are as of counter: as long as Seen gives the
// same, this client knows of no later update.
func (c *Client) ReadDir(ctx context.Context, dir posix.Ino, cookie, limit uint64) (entries []meta.Entry, counter uint64, err error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	r, seen, err := c.askAt(ctx, &meta.Command{Op: meta.OpReadDir, Ino: dir, Offset: cookie, Length: limit})
	return r.Entries, seen.Of(dir.Partition()), c.outcome(err)
}
