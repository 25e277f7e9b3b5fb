package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// query routes a command that only reads to the partition of its inode.
func (c *Client) query(ctx context.Context, cmd meta.Command) (meta.Result, error) {
	p, err := c.of(cmd.Ino)
	if err != nil {
		return meta.Result{}, err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := p.query(ctx, &cmd)
	return r, c.code(err)
}

// update routes an update to the partition of its inode. Once sent it is waited for even if ctx is
// cancelled: an interrupted system call must not leave an update of unknown outcome.
func (c *Client) update(ctx context.Context, cmd meta.Command) (meta.Result, error) {
	p, err := c.of(cmd.Ino)
	if err != nil {
		return meta.Result{}, err
	}
	if ctx.Err() != nil {
		return meta.Result{}, c.code(ctx.Err())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	r, err := p.update(ctx, &cmd)
	return r, c.code(err)
}

// Lookup gives the attributes of a name in a directory.
func (c *Client) Lookup(ctx context.Context, dir posix.Ino, name string) (posix.Attr, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
	if err != nil {
		return posix.Attr{}, err
	}
	return c.complete(ctx, dir, r.Attr)
}

// complete asks for the attributes of an entry that names an inode of another partition.
func (c *Client) complete(ctx context.Context, dir posix.Ino, a posix.Attr) (posix.Attr, error) {
	if a.Ino.Partition() == dir.Partition() {
		return a, nil
	}
	return c.GetAttr(ctx, a.Ino)
}

// GetAttr gives the attributes of an inode.
func (c *Client) GetAttr(ctx context.Context, i posix.Ino) (posix.Attr, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpGetAttr, Ino: i})
	return r.Attr, err
}

// SetAttr sets the attributes that set names (meta.SetMode and so on) and gives all.
func (c *Client) SetAttr(ctx context.Context, cred posix.Cred, i posix.Ino, set uint32, a posix.Attr) (posix.Attr, error) {
	r, err := c.update(ctx, meta.Command{Op: meta.OpSetAttr, Cred: cred, Ino: i, Set: set, Attr: a})
	return r.Attr, err
}

// Node says what Mknod makes.
type Node struct {
	Mode   posix.Mode // type and permissions
	Rdev   uint32     // of a device
	Target string     // of a symlink
	Flags  uint32     // meta.Exclusive, meta.Truncate; for regular files
}

// Mknod makes an inode of any type under a name, or gives the existing regular file if Exclusive is
// not set.
func (c *Client) Mknod(ctx context.Context, cred posix.Cred, dir posix.Ino, name string, n Node) (posix.Attr, error) {
	cmd := meta.Command{Op: meta.OpMknod, Cred: cred, Ino: dir, Name: name, Mode: n.Mode, Rdev: n.Rdev, Flags: n.Flags}
	if n.Mode.Type() == posix.TypeSymlink {
		if len(n.Target) > posix.MaxTarget {
			return posix.Attr{}, posix.ENAMETOOLONG
		}
		cmd.Data = []byte(n.Target)
	}
	r, err := c.update(ctx, cmd)
	return r.Attr, err
}

// Create is Mknod of a regular file, which is then open: Release ends that.
func (c *Client) Create(ctx context.Context, cred posix.Cred, dir posix.Ino, name string, n Node) (posix.Attr, error) {
	p, err := c.of(dir)
	if err != nil {
		return posix.Attr{}, err
	}
	defer p.beginCreate()()
	a, err := c.Mknod(ctx, cred, dir, name, n)
	if err == nil {
		p.hold(a.Ino)
	}
	return a, err
}

// Open keeps an inode readable and writable until Release, also if it is unlinked.
func (c *Client) Open(ctx context.Context, i posix.Ino) error {
	p, err := c.of(i)
	if err != nil {
		return err
	}
	bounded, cancel := c.bound(ctx)
	defer cancel()
	if err := p.openSession(bounded); err != nil {
		return c.code(err)
	}
	if p.hold(i) {
		return nil
	}
	// What was unlinked before we said that we hold it may be reaped: it is as good as gone.
	a, err := c.GetAttr(ctx, i)
	if err == nil && a.Nlink == 0 {
		err = posix.ESTALE
	}
	if err != nil {
		p.release(i)
	}
	return err
}

// Release ends an Open or a Create.
func (c *Client) Release(i posix.Ino) {
	if p, err := c.of(i); err == nil {
		p.release(i)
	}
}

// Link makes one more name for an inode. Both must be in one partition, else EXDEV.
func (c *Client) Link(ctx context.Context, cred posix.Cred, i, dir posix.Ino, name string) (posix.Attr, error) {
	r, err := c.update(ctx, meta.Command{Op: meta.OpLink, Cred: cred, Ino: i, NewParent: dir, NewName: name})
	return r.Attr, err
}

// Unlink removes a name that is not a directory's.
func (c *Client) Unlink(ctx context.Context, cred posix.Cred, dir posix.Ino, name string) error {
	_, err := c.update(ctx, meta.Command{Op: meta.OpUnlink, Cred: cred, Ino: dir, Name: name})
	return err
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, cred posix.Cred, dir posix.Ino, name string) error {
	_, err := c.update(ctx, meta.Command{Op: meta.OpRmdir, Cred: cred, Ino: dir, Name: name})
	return err
}

// Rename moves a name, atomically. Both directories must be in one partition, else EXDEV. Flags are
// meta.RenameNoReplace or meta.RenameExchange.
func (c *Client) Rename(ctx context.Context, cred posix.Cred, dir posix.Ino, name string, newDir posix.Ino, newName string, flags uint32) error {
	_, err := c.update(ctx, meta.Command{Op: meta.OpRename, Cred: cred, Ino: dir, Name: name, NewParent: newDir, NewName: newName, Flags: flags})
	return err
}

// Readlink gives the target of a symlink.
func (c *Client) Readlink(ctx context.Context, i posix.Ino) ([]byte, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpReadlink, Ino: i})
	return r.Data, err
}

// ReadDir gives up to max entries after the one with this cookie, 0 for the first ones. None means that
// the directory has ended.
func (c *Client) ReadDir(ctx context.Context, dir posix.Ino, cookie uint64, max int) ([]meta.Entry, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpReadDir, Ino: dir, Offset: cookie, Length: uint64(max)})
	return r.Entries, err
}

// GetXattr gives the value of an extended attribute.
func (c *Client) GetXattr(ctx context.Context, i posix.Ino, name string) ([]byte, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpGetXattr, Ino: i, Name: name})
	return r.Data, err
}

// ListXattr gives the names of the extended attributes, each ended by a NUL.
func (c *Client) ListXattr(ctx context.Context, i posix.Ino) ([]byte, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpListXattr, Ino: i})
	return r.Data, err
}

// SetXattr sets an extended attribute. Flags are meta.XattrCreate or meta.XattrReplace.
func (c *Client) SetXattr(ctx context.Context, cred posix.Cred, i posix.Ino, name string, value []byte, flags uint32) error {
	if len(value) > posix.MaxXattr {
		return posix.E2BIG
	}
	_, err := c.update(ctx, meta.Command{Op: meta.OpSetXattr, Cred: cred, Ino: i, Name: name, Data: value, Flags: flags})
	return err
}

// RemoveXattr removes an extended attribute.
func (c *Client) RemoveXattr(ctx context.Context, cred posix.Cred, i posix.Ino, name string) error {
	_, err := c.update(ctx, meta.Command{Op: meta.OpRemoveXattr, Cred: cred, Ino: i, Name: name})
	return err
}

// Usage is what the partition of an inode uses, and what its region can store, in bytes.
type Usage struct {
	Inodes, Bytes, Total, Free uint64
}

// StatFS says how full the file system is where i lives.
func (c *Client) StatFS(ctx context.Context, i posix.Ino) (Usage, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpStatFS, Ino: i})
	if err != nil {
		return Usage{}, err
	}
	total, free, err := c.cfg.Capacity(ctx, i.Partition())
	return Usage{Inodes: r.Number, Bytes: r.Number2, Total: total, Free: free}, c.code(err)
}

// OpenPartition opens a session with a partition: it then works.
func (c *Client) OpenPartition(ctx context.Context, partition uint16) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.partitions[partition].openSession(ctx)
}
