package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Attributes are the operations on what inodes say of themselves.
type Attributes struct {
	common
}

// attr returns the attributes of an inode.
func (c *common) attr(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	a, err := c.router.Query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino}, route.Inode(ino))
	return a.Attr, err
}

// GetAttr returns the attributes of an inode: ESTALE if it is gone.
func (a *Attributes) GetAttr(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	return a.attr(ctx, ino)
}

// SetAttr sets the attributes that set names (meta.SetMode and the like) to those in attr.
func (a *Attributes) SetAttr(ctx context.Context, cred posix.Cred, ino posix.Ino, set uint32, attr posix.Attr) (posix.Attr, error) {
	if set == 0 {
		return a.attr(ctx, ino)
	}
	r, err := a.router.Update(ctx, &meta.Command{Op: meta.OpSetAttr, Cred: cred, Ino: ino, Set: set, Attr: attr}, route.Inode(ino))
	return r.Attr, err
}

// GetXattr returns the value of an extended attribute: ENODATA if there is none.
func (a *Attributes) GetXattr(ctx context.Context, ino posix.Ino, name string) ([]byte, error) {
	r, err := a.router.Query(ctx, &meta.Command{Op: meta.OpGetXattr, Ino: ino, Name: name}, route.Inode(ino))
	return r.Data, err
}

// ListXattr returns the names of the extended attributes, each ended by a NUL.
func (a *Attributes) ListXattr(ctx context.Context, ino posix.Ino) ([]byte, error) {
	r, err := a.router.Query(ctx, &meta.Command{Op: meta.OpListXattr, Ino: ino}, route.Inode(ino))
	return r.Data, err
}

// SetXattr sets an extended attribute; flags are meta.XattrCreate and meta.XattrReplace.
func (a *Attributes) SetXattr(ctx context.Context, cred posix.Cred, ino posix.Ino, name string, value []byte, flags uint32) error {
	if len(value) > posix.MaxXattr {
		return posix.E2BIG
	}
	cmd := &meta.Command{Op: meta.OpSetXattr, Cred: cred, Ino: ino, Name: name, Data: value, Flags: flags}
	_, err := a.router.Update(ctx, cmd, route.Inode(ino))
	return err
}

// RemoveXattr removes an extended attribute: ENODATA if there is none.
func (a *Attributes) RemoveXattr(ctx context.Context, cred posix.Cred, ino posix.Ino, name string) error {
	_, err := a.router.Update(ctx, &meta.Command{Op: meta.OpRemoveXattr, Cred: cred, Ino: ino, Name: name}, route.Inode(ino))
	return err
}

// Usage is what StatFS returns.
type Usage struct {
	Inodes uint64 // in use in the partition
	Used   uint64 // bytes in use in the partition, one copy counted
	Free   uint64 // bytes that can still be written in the client's region
}

// unknownFree is shown as free space where it is not known: programs refuse to write where nothing is free.
const unknownFree = 1 << 50

// StatFS returns the usage of the partition of ino, and the space of the client's region.
func (a *Attributes) StatFS(ctx context.Context, ino posix.Ino) (Usage, error) {
	ctx, cancel := a.router.Operation(ctx)
	defer cancel()
	r, err := a.router.Query(ctx, &meta.Command{Op: meta.OpStatFS, Ino: ino}, route.Inode(ino))
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Inodes: r.Number, Used: r.Number2, Free: unknownFree}
	if a.cfg.Usage == nil {
		return u, nil
	}
	_, free, err := a.cfg.Usage(ctx)
	if err != nil {
		a.notices.Rarely("usage", "the region's storage does not tell its free space: df shows a guess; check its storage servers", "error", err)
		return u, nil
	}
	u.Free = free / uint64(max(a.cfg.Cluster.Copies, 1))
	return u, nil
}
