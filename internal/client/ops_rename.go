package client

import (
	"context"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Rename moves a name; flags are meta.RenameNoReplace and meta.RenameExchange.
func (c *Client) Rename(ctx context.Context, cred posix.Cred, from, to Name, flags uint32) error {
	cmd := &meta.Command{
		Op: meta.OpRename, Cred: cred, Ino: from.Dir, Name: from.Name, NewParent: to.Dir, NewName: to.Name, Flags: flags,
	}
	if code := checkRename(cmd); code != posix.OK {
		return code
	}
	var moves bool // the file goes to cmd.Target
	lookAround := func(ctx context.Context) (to parties, err error) {
		to, moves, err = c.lookToRename(ctx, cmd)
		return to, err
	}
	r, err := c.settle(ctx, cmd, func(ctx context.Context, look bool) (parties, error) {
		if look {
			return lookAround(ctx)
		}
		source, err := c.remembered(from)
		if err != nil {
			return parties{}, err
		}
		target, err := c.remembered(to)
		if err != nil {
			return parties{}, err
		}
		if source.dir == target.dir && !source.away() && !target.away() {
			return parties{ask: source.dir}, nil
		}
		return lookAround(ctx)
	})
	if err != nil {
		return err
	}
	if at := uint16(r.Number); moves && at == cmd.Target && r.Attr.Bytes > 0 {
		c.follow(r.Attr.Ino, at)
	}
	c.foreign.drop(from)
	c.foreign.drop(to)
	return nil
}

// checkRename refuses what can be seen without looking, in the order in which the partitions do.
func checkRename(cmd *meta.Command) posix.Code {
	const both = meta.RenameExchange | meta.RenameNoReplace
	isDots := func(name string) bool { return name == "." || name == ".." }
	switch {
	case cmd.Flags&both == both:
		return posix.EINVAL
	case isDots(cmd.Name):
		return posix.EBUSY
	case isDots(cmd.NewName) && cmd.Flags&meta.RenameNoReplace != 0:
		return posix.EEXIST
	case isDots(cmd.NewName):
		return posix.EBUSY
	}
	return posix.OK
}

// lookToRename arranges a rename that may concern several partitions, and tells whether a file is to move to another one by it.
func (c *Client) lookToRename(ctx context.Context, cmd *meta.Command) (to parties, moves bool, err error) {
	cmd.Child, cmd.NewChild, cmd.Target, cmd.Chain, cmd.Back = 0, 0, 0, nil, nil
	source, target, err := c.lookBoth(ctx, Name{cmd.Ino, cmd.Name}, Name{cmd.NewParent, cmd.NewName})
	if err != nil {
		return parties{}, false, err
	}
	rule, err := c.askRule(ctx, cmd.NewParent)
	if err != nil {
		return parties{}, false, err
	}
	cmd.Child, cmd.NewChild = source.child.Ino, target.child.Ino
	cmd.Target = rule.Place(target.dir.id, cmd.NewName)
	all := []uint16{source.dir.id, target.dir.id, source.at.id}
	if target.child.Ino != 0 {
		all = append(all, target.at.id)
	}
	if source.child.Mode.IsDir() {
		all = append(all, cmd.Target) // to which what is below it is to follow
	} else if source.at.id != cmd.Target && source.child.Nlink == 1 && cmd.Flags&meta.RenameExchange == 0 {
		all = append(all, cmd.Target, cmd.Child.Partition())
		moves = source.child.Mode.IsRegular()
	}
	if cmd.Ino != cmd.NewParent {
		above, err := c.lookAbove(ctx, cmd, &source, &target)
		if err != nil {
			return parties{}, false, err
		}
		all = append(all, above...)
	}
	to = among(source.dir, all...)
	if len(to.dest) == 0 {
		cmd.Child, cmd.NewChild, cmd.Target, cmd.Chain, cmd.Back = 0, 0, 0, nil, nil
	}
	return to, moves, nil
}

// lookAbove finds the ways up that show whether a directory would come to be below itself, and gives their partitions.
func (c *Client) lookAbove(ctx context.Context, cmd *meta.Command, source, target *named) (all []uint16, err error) {
	if source.child.Mode.IsDir() {
		if cmd.Chain, err = c.chain(ctx, cmd.NewParent); err != nil {
			return nil, err
		}
	}
	if target.child.Mode.IsDir() && cmd.Flags&meta.RenameExchange != 0 {
		if cmd.Back, err = c.chain(ctx, cmd.Ino); err != nil {
			return nil, err
		}
	}
	for _, dir := range slices.Concat(cmd.Chain, cmd.Back) {
		p, err := c.at(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, p.id)
	}
	return all, nil
}

// maxChain bounds how often the way up from a directory enters another partition.
const maxChain = 256

// chain gives dir and each directory on the way up from it whose child on the way is in another partition.
func (c *Client) chain(ctx context.Context, dir posix.Ino) (chain []posix.Ino, err error) {
	for range maxChain {
		chain = append(chain, dir)
		r, err := c.ask(ctx, &meta.Command{Op: meta.OpChain, Ino: dir})
		if err != nil {
			return nil, err
		}
		if r.Attr.Ino == 0 {
			return chain, nil
		}
		dir = r.Attr.Ino
		c.suggest(dir, uint16(r.Number))
	}
	return nil, posix.ELOOP
}
