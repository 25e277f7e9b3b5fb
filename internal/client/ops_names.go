package client

import (
	"context"
	"errors"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Name is a place in the tree: a name in a directory.
type Name struct {
	Dir  posix.Ino
	Name string
}

// Lookup gives the attributes of what name in dir names.
func (c *Client) Lookup(ctx context.Context, dir posix.Ino, name string) (posix.Attr, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	n, err := c.look(ctx, Name{dir, name})
	return n.child, c.outcome(err)
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

// make makes what cmd says where the rule of the directory sends it, or opens the file that has the name.
func (c *Client) make(ctx context.Context, cmd *meta.Command) (posix.Attr, error) {
	cmd.Op = meta.OpMknod
	ctx, cancel := c.operation(ctx)
	defer cancel()
	for try := 1; ; try++ {
		r, err := c.settle(ctx, cmd, func(ctx context.Context, look bool) (parties, error) { return c.arrangeMake(ctx, cmd, look) })
		if err != nil {
			return r.Attr, err
		}
		c.noteMade(Name{cmd.Ino, cmd.Name}, &r)
		if r.Attr.Nlink > 0 {
			return r.Attr, nil
		}
		r, err = c.openThere(ctx, cmd, r.Attr.Ino)
		if !errors.Is(err, posix.ESTALE) || try == maxRereads {
			return r.Attr, c.outcome(err)
		}
		// It has lost its name meanwhile.
	}
}

func (c *Client) arrangeMake(ctx context.Context, cmd *meta.Command, look bool) (parties, error) {
	cmd.Child, cmd.Set, cmd.Attr = 0, 0, posix.Attr{}
	known, _ := c.rules.get(cmd.Ino)
	if look {
		n, err := c.look(ctx, Name{cmd.Ino, cmd.Name})
		if err == nil { // its directory can say what that means
			cmd.Target = n.dir.id
			return parties{ask: n.dir}, nil
		}
		if !errors.Is(err, posix.ENOENT) {
			return parties{}, err
		}
		if known, err = c.askPlacing(ctx, cmd.Ino); err != nil {
			return parties{}, err
		}
	}
	dir, err := c.at(cmd.Ino)
	if err != nil {
		return parties{}, err
	}
	cmd.Target = known.rule.Place(dir.id, cmd.Name)
	if cmd.Target == dir.id {
		return parties{ask: dir}, nil
	}
	target, err := c.partition(cmd.Target)
	if err != nil {
		return parties{}, err
	}
	if cmd.Child = c.number(ctx, target); cmd.Child != 0 {
		cmd.Foresee(&known.dir)
	}
	return among(dir, dir.id, target.id), nil
}

// openThere does what cmd, a make, asks for with the file in another partition that has its name.
func (c *Client) openThere(ctx context.Context, cmd *meta.Command, ino posix.Ino) (r meta.Result, err error) {
	if cmd.Flags&meta.Truncate == 0 {
		r, err = c.ask(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
	} else {
		r, err = c.apply(ctx, ino, &meta.Command{Op: meta.OpSetAttr, Cred: cmd.Cred, Ino: ino, Set: meta.SetSize})
	}
	if err == nil && r.Attr.Nlink == 0 {
		err = posix.ESTALE
	}
	return r, err
}

// noteMade remembers what was made, or found, if it is in another partition than its name.
func (c *Client) noteMade(at Name, made *meta.Result) {
	c.suggest(made.Attr.Ino, uint16(made.Number))
	dir, err := c.at(at.Dir)
	if err == nil && made.Number != uint64(dir.id) {
		c.foreign.put(at, made.Attr.Ino)
		return
	}
	c.foreign.drop(at)
}

// Link gives ino another name.
func (c *Client) Link(ctx context.Context, cred posix.Cred, ino posix.Ino, to Name) (posix.Attr, error) {
	cmd := &meta.Command{Op: meta.OpLink, Cred: cred, Ino: ino, NewParent: to.Dir, NewName: to.Name}
	r, err := c.settle(ctx, cmd, func(ctx context.Context, look bool) (parties, error) {
		if look {
			if err := c.find(ctx, to.Dir, ino); err != nil {
				return parties{}, err
			}
		}
		dir, err := c.at(to.Dir)
		if err != nil {
			return parties{}, err
		}
		child, err := c.at(ino)
		if err != nil {
			return parties{}, err
		}
		cmd.Child = 0
		if child != dir {
			cmd.Child = ino
		}
		return among(dir, dir.id, child.id), nil
	})
	if err == nil && cmd.Child != 0 {
		c.foreign.put(to, ino)
	}
	return r.Attr, err
}

// Unlink removes a name of what is not a directory.
func (c *Client) Unlink(ctx context.Context, cred posix.Cred, at Name) error {
	return c.remove(ctx, &meta.Command{Op: meta.OpUnlink, Cred: cred, Ino: at.Dir, Name: at.Name})
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, cred posix.Cred, at Name) error {
	return c.remove(ctx, &meta.Command{Op: meta.OpRmdir, Cred: cred, Ino: at.Dir, Name: at.Name})
}

func (c *Client) remove(ctx context.Context, cmd *meta.Command) error {
	at := Name{cmd.Ino, cmd.Name}
	_, err := c.settle(ctx, cmd, func(ctx context.Context, look bool) (to parties, err error) {
		var n named
		if look {
			n, err = c.look(ctx, at)
		} else {
			n, err = c.remembered(at)
		}
		if err != nil {
			return parties{}, err
		}
		cmd.Child = 0
		if !n.away() {
			return parties{ask: n.dir}, nil
		}
		cmd.Child = n.child.Ino
		return among(n.dir, n.dir.id, n.at.id), nil
	})
	if err == nil {
		c.foreign.drop(at)
	}
	return err
}

// Readlink gives the target of a symbolic link.
func (c *Client) Readlink(ctx context.Context, ino posix.Ino) ([]byte, error) {
	r, err := c.query(ctx, &meta.Command{Op: meta.OpReadlink, Ino: ino})
	return r.Data, err
}

// ReadDir gives at most limit entries of dir after the cookie of an earlier entry, from the start
// if it is 0; none are left if it gives none. Of an inode in another partition only number and
// type are known: GetAttr gives the rest. The entries are as of version: as long as Version gives the
// same, this client knows of no later update.
func (c *Client) ReadDir(ctx context.Context, dir posix.Ino, cookie, limit uint64) (entries []meta.Entry, of uint64, err error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	before := c.vector.snapshot()
	a, err := c.askAt(ctx, &meta.Command{Op: meta.OpReadDir, Ino: dir, Offset: cookie, Length: limit})
	if err != nil {
		return nil, 0, c.outcome(err)
	}
	for i := range a.Entries {
		if e := &a.Entries[i]; e.Attr.Nlink == 0 {
			c.suggest(e.Attr.Ino, e.At)
		}
	}
	p := a.partition.id
	return a.Entries, version(a.partition, ask.Seen{Count: a.seen.Of(p).Count, Cross: before.Of(p).Cross}), nil
}
