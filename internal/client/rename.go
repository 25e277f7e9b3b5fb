package client

import (
	"context"
	"slices"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Rename moves a name; flags are meta.RenameNoReplace and meta.RenameExchange.
func (n *Names) Rename(ctx context.Context, cred posix.Cred, from, to Name, flags uint32) error {
	cmd := meta.Command{
		Op: meta.OpRename, Cred: cred, Ino: from.Dir, Name: from.Name, NewParent: to.Dir, NewName: to.Name, Flags: flags,
	}
	if code := checkRename(&cmd); code != posix.OK {
		return code
	}
	var moves bool // the file goes to Target
	r, sent, err := n.settle(ctx, func(ctx context.Context, look bool) (p plan, err error) {
		if !look {
			if p, err = n.planNearRename(cmd, from, to); err != nil || p.cmd != nil {
				return p, err
			}
		}
		p, moves, err = n.planRename(ctx, cmd)
		return p, err
	})
	if err != nil {
		return err
	}
	if at := uint16(r.Number); moves && at == sent.cmd.Target && r.Attr.Bytes > 0 {
		n.copier.follow(r.Attr.Ino, at)
	}
	n.foreign.Drop(from)
	n.foreign.Drop(to)
	return nil
}

// planNearRename plans a rename without looking. It plans nothing unless, as far as is known, the rename
// concerns one partition.
func (n *Names) planNearRename(cmd meta.Command, from, to Name) (plan, error) {
	source, err := n.remembered(from)
	if err != nil {
		return plan{}, err
	}
	target, err := n.remembered(to)
	if err != nil || source.dir != target.dir || source.away() || target.away() {
		return plan{}, err
	}
	return plan{cmd: &cmd, to: route.Partition(source.dir)}, nil
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

// planRename looks, and plans a rename that may concern several partitions. It tells whether a file is to
// move to another partition by it.
func (n *Names) planRename(ctx context.Context, cmd meta.Command) (p plan, moves bool, err error) {
	source, target, err := n.lookBoth(ctx, Name{cmd.Ino, cmd.Name}, Name{cmd.NewParent, cmd.NewName})
	if err != nil {
		return plan{}, false, err
	}
	into, err := n.askPlacing(ctx, cmd.NewParent)
	if err != nil {
		return plan{}, false, err
	}
	one := cmd // as it is sent to one partition
	cmd.Child, cmd.NewChild = source.child.Ino, target.child.Ino
	cmd.Target = into.rule.Place(target.dir, cmd.NewName)
	all := []uint16{target.dir, source.at}
	if target.child.Ino != 0 {
		all = append(all, target.at)
	}
	if source.child.Mode.IsDir() {
		all = append(all, cmd.Target) // to which what is below it is to follow
	} else if source.at != cmd.Target && source.child.Nlink == 1 && cmd.Flags&meta.RenameExchange == 0 {
		all = append(all, cmd.Target, cmd.Child.Partition())
		moves = source.child.Mode.IsRegular()
	}
	if cmd.Ino != cmd.NewParent {
		above, err := n.lookAbove(ctx, &cmd, &source, &target)
		if err != nil {
			return plan{}, false, err
		}
		all = append(all, above...)
	}
	to := route.Parties(source.dir, all...)
	if !to.Several() {
		return plan{cmd: &one, to: to}, moves, nil
	}
	return plan{cmd: &cmd, to: to}, moves, nil
}

// lookAbove finds the ways up that show whether a directory would come to be below itself, and returns their
// partitions.
func (n *Names) lookAbove(ctx context.Context, cmd *meta.Command, source, target *named) (all []uint16, err error) {
	if source.child.Mode.IsDir() {
		if cmd.Chain, err = n.chain(ctx, cmd.NewParent); err != nil {
			return nil, err
		}
	}
	if target.child.Mode.IsDir() && cmd.Flags&meta.RenameExchange != 0 {
		if cmd.Back, err = n.chain(ctx, cmd.Ino); err != nil {
			return nil, err
		}
	}
	for _, dir := range slices.Concat(cmd.Chain, cmd.Back) {
		p, err := n.router.At(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// maxChain bounds how often the way up from a directory enters another partition.
const maxChain = 256

// chain returns dir and each directory on the way up from it whose child on the way is in another partition.
func (n *Names) chain(ctx context.Context, dir posix.Ino) (chain []posix.Ino, err error) {
	for range maxChain {
		chain = append(chain, dir)
		a, err := n.router.Query(ctx, &meta.Command{Op: meta.OpChain, Ino: dir}, route.Inode(dir))
		if err != nil {
			return nil, err
		}
		if a.Attr.Ino == 0 {
			return chain, nil
		}
		dir = a.Attr.Ino
		n.router.Suggest(dir, uint16(a.Number))
	}
	return nil, posix.ELOOP
}
