package client

import (
	"context"
	"errors"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Mknod makes a file of any type except directory and symlink.
func (n *Names) Mknod(ctx context.Context, cred posix.Cred, at Name, mode posix.Mode, rdev uint32) (posix.Attr, error) {
	return n.make(ctx, meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: mode, Rdev: rdev, Flags: meta.Exclusive})
}

// Mkdir makes a directory. mode has only permissions.
func (n *Names) Mkdir(ctx context.Context, cred posix.Cred, at Name, mode posix.Mode) (posix.Attr, error) {
	return n.make(ctx, meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: posix.TypeDir | mode.Perm()})
}

// Symlink makes a symbolic link.
func (n *Names) Symlink(ctx context.Context, cred posix.Cred, at Name, target string) (posix.Attr, error) {
	if len(target) > posix.MaxTarget {
		return posix.Attr{}, posix.ENAMETOOLONG
	}
	return n.make(ctx, meta.Command{Cred: cred, Ino: at.Dir, Name: at.Name, Mode: posix.TypeSymlink | 0o777, Data: []byte(target)})
}

// make makes the inode of cmd in the partition that the rule of the directory names, or opens the file that
// has the name.
func (n *Names) make(ctx context.Context, cmd meta.Command) (posix.Attr, error) {
	cmd.Op = meta.OpMknod
	cmd.Flags |= meta.ReturnDir
	ctx, cancel := n.router.Operation(ctx)
	defer cancel()
	for try := 1; ; try++ {
		r, _, err := n.settle(ctx, func(ctx context.Context, look bool) (plan, error) { return n.planMake(ctx, cmd, look) })
		if err != nil {
			return r.Attr, err
		}
		n.noteMade(Name{cmd.Ino, cmd.Name}, &r)
		if r.Attr.Nlink > 0 {
			return r.Attr, nil
		}
		attr, err := n.openThere(ctx, &cmd, r.Attr.Ino)
		if !errors.Is(err, posix.ESTALE) || try == maxRereads {
			return attr, n.outcome(err)
		}
		// The file has lost its name meanwhile.
	}
}

// planMake sends the command to the directory's partition, which also makes inodes of other partitions.
func (n *Names) planMake(ctx context.Context, cmd meta.Command, look bool) (plan, error) {
	if look {
		if err := n.find(ctx, cmd.Ino); err != nil {
			return plan{}, err
		}
	}
	dir, err := n.router.At(cmd.Ino)
	return plan{cmd: &cmd, to: route.Partition(dir)}, err
}

// openThere executes cmd on the existing file of the name, which is in another partition than the directory.
func (n *Names) openThere(ctx context.Context, cmd *meta.Command, ino posix.Ino) (attr posix.Attr, err error) {
	if cmd.Flags&meta.Truncate == 0 {
		attr, err = n.attr(ctx, ino)
	} else {
		var a route.Answer
		a, err = n.router.Update(ctx, &meta.Command{Op: meta.OpSetAttr, Cred: cmd.Cred, Ino: ino, Set: meta.SetSize}, route.Inode(ino))
		attr = a.Attr
	}
	if err == nil && attr.Nlink == 0 {
		err = posix.ESTALE
	}
	return attr, err
}

// noteMade remembers an inode that was made or found.
func (n *Names) noteMade(at Name, made *meta.Result) {
	n.router.Suggest(made.Attr.Ino, uint16(made.Number))
	n.note(at, &made.Attr)
}

// Link gives ino another name.
func (n *Names) Link(ctx context.Context, cred posix.Cred, ino posix.Ino, to Name) (posix.Attr, error) {
	r, _, err := n.settle(ctx, func(ctx context.Context, look bool) (plan, error) {
		cmd := &meta.Command{Op: meta.OpLink, Cred: cred, Ino: ino, NewParent: to.Dir, NewName: to.Name}
		if look {
			if err := n.find(ctx, to.Dir, ino); err != nil {
				return plan{}, err
			}
		}
		dir, err := n.router.At(to.Dir)
		if err != nil {
			return plan{}, err
		}
		child, err := n.router.At(ino)
		if err != nil {
			return plan{}, err
		}
		if child != dir {
			cmd.Child = ino
		} else {
			cmd.Flags = meta.ReturnDir
		}
		return plan{cmd: cmd, to: route.Among(dir, child)}, nil
	})
	if err == nil {
		n.note(to, &r.Attr)
	}
	return r.Attr, err
}

// Unlink removes a name of an inode that is not a directory.
func (n *Names) Unlink(ctx context.Context, cred posix.Cred, at Name) error {
	return n.remove(ctx, meta.Command{Op: meta.OpUnlink, Cred: cred, Ino: at.Dir, Name: at.Name})
}

// Rmdir removes an empty directory.
func (n *Names) Rmdir(ctx context.Context, cred posix.Cred, at Name) error {
	return n.remove(ctx, meta.Command{Op: meta.OpRmdir, Cred: cred, Ino: at.Dir, Name: at.Name})
}

func (n *Names) remove(ctx context.Context, cmd meta.Command) error {
	at := Name{cmd.Ino, cmd.Name}
	_, _, err := n.settle(ctx, func(ctx context.Context, look bool) (_ plan, err error) {
		var found named
		if look {
			found, err = n.look(ctx, at)
		} else {
			found, err = n.remembered(at)
		}
		if err != nil {
			return plan{}, err
		}
		cmd := cmd
		if !found.away() {
			cmd.Flags |= meta.ReturnDir
			return plan{cmd: &cmd, to: route.Partition(found.dir)}, nil
		}
		cmd.Child = found.child.Ino
		return plan{cmd: &cmd, to: route.Among(found.dir, found.at)}, nil
	})
	if err == nil {
		n.note(at, &posix.Attr{})
	}
	return err
}
