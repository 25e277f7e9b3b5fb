package client

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Handles has the operations that open and release inodes (C5).
type Handles struct {
	common
	names *Names
}

// Create makes a regular file and opens it. If the file exists, Create opens it, and truncates it if flags
// has meta.Truncate; with meta.Exclusive it returns EEXIST instead. Create does not check the permissions of
// an existing file.
func (h *Handles) Create(ctx context.Context, cred posix.Cred, at Name, mode posix.Mode, flags uint32) (posix.Attr, error) {
	before := h.router.Renewals()
	attr, err := h.names.make(ctx, meta.Command{
		Cred: cred, Ino: at.Dir, Name: at.Name, Mode: posix.TypeRegular | mode.Perm(), Flags: flags,
	})
	if err != nil {
		return attr, err
	}
	if _, err := h.router.Hold(attr.Ino); err != nil {
		return attr, err
	}
	if h.router.HeldSince(before, attr.Ino) {
		return attr, nil
	}
	// The inode is new to its partition: the partition has no session of this client, or a renewal without
	// the inode was sent meanwhile.
	h.awaitSession(ctx, attr.Ino.Partition())
	attr, err = h.present(ctx, attr.Ino)
	if err == posix.EINTR {
		err = posix.ETIMEDOUT // not EINTR: the file was made
	}
	return attr, err
}

// sessionPatience bounds the time for which an open waits for a session. After that a file can be read
// without a session, for example on the side of a cut network that can order nothing (T 3.4.1: open for
// reading is not multicast). If the file is unlinked meanwhile, its content may be lost (C5).
const sessionPatience = 2 * time.Second

// Open holds ino until Release, also after its last name was removed, and returns its attributes. It returns
// ESTALE if the inode does not exist, or is unlinked and not open in this client.
func (h *Handles) Open(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	if int(ino.Partition()) >= h.router.Partitions() {
		return posix.Attr{}, posix.ESTALE
	}
	h.awaitSession(ctx, ino.Partition())
	first, err := h.router.Hold(ino)
	if err != nil {
		return posix.Attr{}, err
	}
	if first {
		return h.present(ctx, ino)
	}
	attr, err := h.attr(ctx, ino)
	if err != nil {
		h.router.Release(ino)
	}
	return attr, err
}

func (h *Handles) awaitSession(ctx context.Context, home uint16) {
	if h.router.HasSession(home) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(sessionPatience, h.cfg.Timeout))
	defer cancel()
	if _, err := h.router.Session(ctx, home); err != nil {
		h.notices.Rarely("no session", "a file is opened without a session: its partition takes no updates now; if others remove it, it is lost here too",
			"partition", home, "path", h.router.Cluster().Partitions[home].Path, "error", err)
	}
}

// present checks that a newly held inode has a name, which guarantees that the partition keeps it. Otherwise
// it releases the inode.
func (h *Handles) present(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	attr, err := h.attr(ctx, ino)
	if err == nil && attr.Nlink == 0 {
		err = posix.ESTALE
	}
	if err != nil {
		h.router.Release(ino)
	}
	return attr, err
}

// OpenUnlinked is like Open, for an inode that may have lost its last name since it was looked up, for
// example by a concurrent rename. It succeeds if the inode still exists when the partition has ordered that
// this client has it open.
func (h *Handles) OpenUnlinked(ctx context.Context, ino posix.Ino) (posix.Attr, error) {
	if _, err := h.router.Hold(ino); err != nil {
		return posix.Attr{}, err
	}
	ctx, cancel := h.router.Operation(ctx)
	defer cancel()
	home := ino.Partition()
	var a route.Answer
	err := h.router.Renew(ctx, home)
	look := &meta.Command{Op: meta.OpGetAttr, Ino: ino}
	if err == nil {
		// The home decides, even about an inode in another partition: that partition may still have the
		// inode after the home has released it.
		a, err = h.router.Query(ctx, look, route.Partition(home))
	}
	if err == posix.EREMOTE {
		a, err = h.router.Query(ctx, look, route.Inode(ino))
	}
	if err != nil {
		h.router.Release(ino)
	}
	return a.Attr, err
}

// Hold is like Open, but does not check the inode. It is for directories: a removed directory has no entries
// to read.
func (h *Handles) Hold(ino posix.Ino) error {
	_, err := h.router.Hold(ino)
	return err
}

// Release undoes one Create, Open or Hold.
func (h *Handles) Release(ino posix.Ino) { h.router.Release(ino) }
