package client

import (
	"context"
	"sync"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Attributes are the operations on the attributes of inodes.
type Attributes struct {
	common
}

// attr queries the attributes of an inode.
func (c *common) attr(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	for try := 1; ; try++ {
		a, err := c.router.Query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino}, route.Inode(ino))
		if err == nil && c.leases.described(&a) && try < maxRereads {
			continue
		}
		return a.Attr, err
	}
}

// GetAttr returns the attributes of an inode. It returns ESTALE if the inode does not exist any more.
func (a *Attributes) GetAttr(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	if known, ok := a.leases.attr(ctx, ino); ok && a.router.ShowsTicket(ino) {
		return known, nil
	}
	return a.attr(ctx, ino)
}

// SetAttr sets the attributes selected by set (meta.SetMode and others) to the values in attr, and returns
// the new attributes.
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

// Usage is the usage of a partition or of the cluster, in the result of StatFS.
type Usage struct {
	Inodes uint64 // number of inodes in use
	Used   uint64 // bytes of content in use, counted once for all copies
	Free   uint64 // bytes that can still be written in the client's region, or in all regions together
}

// unknownFree is the free space reported if the real value is unknown, because programs refuse to write
// without free space.
const unknownFree = 1 << 50

// StatFS returns the usage of the partition of ino, and the free space of the client's region. For the root
// of the tree it returns the usage and the free space of the whole cluster.
func (a *Attributes) StatFS(ctx context.Context, ino posix.Ino) (Usage, error) {
	ctx, cancel := a.router.Operation(ctx)
	defer cancel()
	r, err := a.router.Query(ctx, &meta.Command{Op: meta.OpStatFS, Ino: ino}, route.Inode(ino))
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Inodes: r.Number, Used: r.Number2, Free: unknownFree}
	free := a.cfg.Usage
	if ino == posix.Root {
		a.addOthers(ctx, r.Partition, &u)
		free = a.cfg.WholeUsage
		if free == nil {
			free = a.cfg.Usage
		}
	}
	if free == nil {
		return u, nil
	}
	_, bytes, err := free(ctx)
	if err != nil {
		a.notices.Rarely("usage", "the storage does not tell its free space: df shows a guess; check the storage servers", "error", err)
		return u, nil
	}
	u.Free = bytes / uint64(max(a.cfg.Cluster.Copies, 1))
	return u, nil
}

// addOthers adds the usage of all partitions but one. It omits partitions that do not answer.
func (a *Attributes) addOthers(ctx context.Context, but uint16, sum *Usage) {
	ctx, cancel := context.WithTimeout(ctx, min(farPatience, a.cfg.Timeout))
	defer cancel()
	others := make([]Usage, a.router.Partitions())
	var asking sync.WaitGroup
	for p := range others {
		if uint16(p) == but {
			continue
		}
		asking.Go(func() {
			root := posix.MakeIno(uint16(p), posix.Root.Counter())
			r, err := a.router.Query(ctx, &meta.Command{Op: meta.OpStatFS, Ino: root}, route.Inode(root))
			if err != nil {
				a.notices.Rarely("usage of partitions", "a partition does not tell its usage: df of the root shows less than there is", "partition", p, "error", err)
				return
			}
			others[p] = Usage{Inodes: r.Number, Used: r.Number2}
		})
	}
	asking.Wait()
	for _, o := range others {
		sum.Inodes, sum.Used = sum.Inodes+o.Inodes, sum.Used+o.Used
	}
}
