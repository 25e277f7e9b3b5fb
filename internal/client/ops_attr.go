package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// GetAttr gives the attributes of an inode: ESTALE if it is gone.
func (c *Client) GetAttr(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	r, err := c.query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
	return r.Attr, err
}

// SetAttr sets the attributes that set names (meta.SetMode and the like) to those in attr.
func (c *Client) SetAttr(ctx context.Context, cred posix.Cred, ino posix.Ino, set uint32, attr posix.Attr) (posix.Attr, error) {
	if set == 0 {
		return c.GetAttr(ctx, ino)
	}
	r, err := c.update(ctx, ino, &meta.Command{Op: meta.OpSetAttr, Cred: cred, Ino: ino, Set: set, Attr: attr})
	return r.Attr, err
}

// GetXattr gives the value of an extended attribute: ENODATA if there is none.
func (c *Client) GetXattr(ctx context.Context, ino posix.Ino, name string) ([]byte, error) {
	r, err := c.query(ctx, &meta.Command{Op: meta.OpGetXattr, Ino: ino, Name: name})
	return r.Data, err
}

// ListXattr gives the names of the extended attributes, each ended by a NUL.
func (c *Client) ListXattr(ctx context.Context, ino posix.Ino) ([]byte, error) {
	r, err := c.query(ctx, &meta.Command{Op: meta.OpListXattr, Ino: ino})
	return r.Data, err
}

// SetXattr sets an extended attribute; flags are meta.XattrCreate and meta.XattrReplace.
func (c *Client) SetXattr(ctx context.Context, cred posix.Cred, ino posix.Ino, name string, value []byte, flags uint32) error {
	if len(value) > posix.MaxXattr {
		return posix.E2BIG
	}
	_, err := c.update(ctx, ino, &meta.Command{Op: meta.OpSetXattr, Cred: cred, Ino: ino, Name: name, Data: value, Flags: flags})
	return err
}

// RemoveXattr removes an extended attribute: ENODATA if there is none.
func (c *Client) RemoveXattr(ctx context.Context, cred posix.Cred, ino posix.Ino, name string) error {
	_, err := c.update(ctx, ino, &meta.Command{Op: meta.OpRemoveXattr, Cred: cred, Ino: ino, Name: name})
	return err
}

// Usage is what StatFS gives.
type Usage struct {
	Inodes uint64 // in use in the partition
	Used   uint64 // bytes in use in the partition, one copy counted
	Free   uint64 // bytes that can still be written in the client's region
}

// unknownFree is what is shown as free where nobody knows: programs refuse to write where
// nothing is.
const unknownFree = 1 << 50

// StatFS gives the usage of the partition of ino, and the space of the client's region.
func (c *Client) StatFS(ctx context.Context, ino posix.Ino) (Usage, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	r, err := c.ask(ctx, &meta.Command{Op: meta.OpStatFS, Ino: ino})
	if err != nil {
		return Usage{}, c.outcome(err)
	}
	u := Usage{Inodes: r.Number, Used: r.Number2, Free: unknownFree}
	if c.cfg.Usage == nil {
		return u, nil
	}
	_, free, err := c.cfg.Usage(ctx)
	if err != nil {
		c.events.warn("usage", "the region's storage does not tell its free space: df shows a guess; check its storage servers", "error", err)
		return u, nil
	}
	u.Free = free / uint64(max(c.cfg.Cluster.Copies, 1))
	return u, nil
}
