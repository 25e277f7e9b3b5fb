package client

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Rename moves a name; flags are meta.RenameNoReplace and meta.RenameExchange.
//
// A rename of several partitions is sent at once if this client has seen both names before, as the kernel's
// lookups ensure in a mount. If the partitions find other inodes, they refuse, and the client looks up the
// names. The partitions do not check the rule of the new directory: the client queries the rule concurrently,
// and moves the file afterwards if the rule demands another partition.
func (n *Names) Rename(ctx context.Context, cred posix.Cred, from, to Name, flags uint32) error {
	r := renaming{names: n, cmd: meta.Command{
		Op: meta.OpRename, Cred: cred, Ino: from.Dir, Name: from.Name, NewParent: to.Dir, NewName: to.Name, Flags: flags,
	}}
	if code := checkRename(&r.cmd); code != posix.OK {
		return code
	}
	operation, cancel := n.router.Operation(ctx)
	defer cancel()
	result, sent, err := n.settle(operation, func(ctx context.Context, look bool) (p plan, err error) {
		if look {
			return r.planByLooking(ctx)
		}
		if p, err = r.planByMemory(ctx); r.guesses {
			r.askRule(operation) // askRule continues when the rename is done
		}
		return p, err
	})
	if err != nil {
		return err
	}
	n.renamed(from, to, flags, &result.Attr)
	if r.isFileFor(sent.cmd.Target, &result) && result.Attr.Bytes > 0 {
		n.copier.follow(result.Attr.Ino, sent.cmd.Target)
	}
	r.obeyRule(operation, sent.cmd.Target, &result)
	return nil
}

// renamed remembers the inodes of two names after a rename. moved is the renamed inode, if the answer has it.
func (n *Names) renamed(from, to Name, flags uint32, moved *posix.Attr) {
	n.seen.Drop(from)
	n.seen.Drop(to)
	if flags&meta.RenameExchange == 0 && moved.Nlink > 0 {
		n.note(from, &posix.Attr{})
		n.note(to, moved)
	}
}

// renaming is a rename that is under way.
type renaming struct {
	names   *Names
	cmd     meta.Command
	moves   bool           // the rename itself moves a file to another partition
	links   uint32         // number of names that the renamed inode probably has
	guesses bool           // the rule of the new directory is not certain
	rule    chan meta.Rule // receives that rule, or is closed without one; nil: there is no query
}

func (r *renaming) from() Name { return Name{r.cmd.Ino, r.cmd.Name} }

func (r *renaming) to() Name { return Name{r.cmd.NewParent, r.cmd.NewName} }

// around has both names of a rename, and the rule of the new directory, as far as the client knows them.
type around struct {
	source, target named
	rule           meta.Rule // of the new directory
}

// planByMemory plans a rename from the client's memory. If that is not enough, it queries the partitions.
func (r *renaming) planByMemory(ctx context.Context) (plan, error) {
	var a around
	var err error
	if a.source, err = r.names.remembered(r.from()); err != nil {
		return plan{}, err
	}
	if a.target, err = r.names.remembered(r.to()); err != nil {
		return plan{}, err
	}
	if a.source.dir == a.target.dir && !a.source.away() && !a.target.away() {
		return plan{cmd: r.alone(), to: route.Partition(a.source.dir)}, nil
	}
	if !a.source.known || !a.target.known || a.source.child.Nlink == 0 {
		return r.planByLooking(ctx)
	}
	if a.source.child.Mode.IsDir() {
		// The command itself gives the partition to which the contents follow: the rule must be known.
		into, err := r.names.askPlacing(ctx, r.cmd.NewParent)
		if err != nil {
			return plan{}, err
		}
		a.rule = into.rule
	} else {
		into, _ := r.names.rules.Get(r.cmd.NewParent)
		a.rule, r.guesses = into.rule, true
	}
	cmd := r.cmd
	if cmd.Ino != cmd.NewParent { // without further partitions, those of the two directories must have the whole ways up
		if a.source.child.Mode.IsDir() {
			cmd.Chain = []posix.Ino{cmd.NewParent}
		}
		if a.target.child.Mode.IsDir() && cmd.Flags&meta.RenameExchange != 0 {
			cmd.Back = []posix.Ino{cmd.Ino}
		}
	}
	return r.plan(cmd, &a, nil), nil
}

// planByLooking queries both names and the rule, and plans a rename.
func (r *renaming) planByLooking(ctx context.Context) (plan, error) {
	a, err := r.lookAround(ctx)
	if err != nil {
		return plan{}, err
	}
	r.rule = nil
	cmd := r.cmd
	var above []uint16
	if cmd.Ino != cmd.NewParent {
		if above, err = r.names.lookAbove(ctx, &cmd, &a.source, &a.target); err != nil {
			return plan{}, err
		}
	}
	return r.plan(cmd, &a, above), nil
}

// lookAround queries both names, of which the second may be absent, and the rule of the new directory.
func (r *renaming) lookAround(ctx context.Context) (a around, err error) {
	var into placing
	var unplaced error
	g, looking := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		a.source, err = r.names.look(looking, r.from())
		return err
	})
	g.Go(func() (err error) {
		if a.target, err = r.names.look(looking, r.to()); err == posix.ENOENT {
			err = nil
		}
		return err
	})
	g.Go(func() error {
		into, unplaced = r.names.askPlacing(looking, r.cmd.NewParent)
		return nil // errors of the names have priority
	})
	if err = g.Wait(); err == nil {
		err = unplaced
	}
	a.rule = into.rule
	return a, err
}

// plan completes cmd with the known inodes and partitions. above has further partitions on the ways to the
// root.
func (r *renaming) plan(cmd meta.Command, a *around, above []uint16) plan {
	source, target := &a.source, &a.target
	cmd.Child, cmd.NewChild = source.child.Ino, target.child.Ino
	cmd.Target = a.rule.Place(target.dir, cmd.NewName)
	all := slices.Concat(above, []uint16{target.dir, source.at})
	if target.child.Ino != 0 {
		all = append(all, target.at)
	}
	r.moves, r.links = false, source.child.Nlink
	if source.child.Mode.IsDir() {
		if a.rule.IsZero() && r.names.sameShards(target.dir, source.at) {
			cmd.Target = source.at // the inode is in a shard of the new directory's region, and stays there
		}
		all = append(all, cmd.Target) // the contents must follow to this partition
	} else if source.at != cmd.Target && source.child.Nlink == 1 && cmd.Flags&meta.RenameExchange == 0 {
		all = append(all, cmd.Target, cmd.Child.Partition())
		r.moves = source.child.Mode.IsRegular()
	}
	to := route.Among(source.dir, all...)
	if !to.Several() {
		cmd = *r.alone()
	}
	return plan{cmd: &cmd, to: to}
}

// sameShards reports whether two partitions are shards of the same region.
func (n *Names) sameShards(a, b uint16) bool {
	all := n.router.Cluster().Partitions
	return int(a) < len(all) && int(b) < len(all) && all[a].Region == all[b].Region
}

// alone returns the command of a rename in one partition.
func (r *renaming) alone() *meta.Command {
	cmd := r.cmd
	cmd.Flags |= meta.ReturnDir
	return &cmd
}

// isFileFor reports whether the rename has moved a file to a partition.
func (r *renaming) isFileFor(target uint16, result *meta.Result) bool {
	return r.moves && result.Number == uint64(target)
}

// askRule starts a query for the rule of the new directory.
func (r *renaming) askRule(ctx context.Context) {
	rule := make(chan meta.Rule, 1)
	r.names.router.Go(func(context.Context) {
		defer close(rule)
		if into, err := r.names.askPlacing(ctx, r.cmd.NewParent); err == nil {
			rule <- into.rule
		}
	})
	r.rule = rule
}

// obeyRule moves a file to the partition that the rule of its new directory names. The file may have been
// sent to another partition, or may have stayed because the client assumed that it had other names. If the
// move fails or takes longer than farPatience, or if the file is too large for one command, the file stays,
// and a mover may move it later.
func (r *renaming) obeyRule(ctx context.Context, sentTo uint16, result *meta.Result) {
	file := &result.Attr
	if r.rule == nil || file.Mode.IsDir() || file.Nlink != 1 || r.cmd.Flags&meta.RenameExchange != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(farPatience, r.names.cfg.Timeout))
	defer cancel()
	var rule meta.Rule
	known := false
	select {
	case rule, known = <-r.rule:
	case <-ctx.Done():
	}
	at, err := r.names.router.At(r.cmd.NewParent)
	if !known || err != nil {
		return
	}
	target := rule.Place(at, r.cmd.NewName)
	if target == uint16(result.Number) || target == sentTo && r.links == 1 {
		return
	}
	moved, err := r.names.move(ctx, file.Ino, target)
	if err != nil {
		r.names.notices.Debug("a file could not be moved to where its new directory's placement sends it", "inode", file.Ino, "error", err)
		return
	}
	if moved.Mode.IsRegular() && moved.Bytes > 0 {
		r.names.copier.follow(file.Ino, target)
	}
}

// move moves an inode to a partition.
func (n *Names) move(ctx context.Context, ino posix.Ino, target uint16) (posix.Attr, error) {
	cmd := &meta.Command{Op: meta.OpMove, Child: ino, Target: target}
	r, _, err := n.settle(ctx, func(ctx context.Context, _ bool) (plan, error) {
		a, err := n.router.Query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino}, route.Inode(ino))
		if err != nil || a.Partition == target {
			return plan{done: &a.Result}, err
		}
		return plan{cmd: cmd, to: route.Among(a.Partition, target, ino.Partition())}, nil
	})
	return r.Attr, err
}

// checkRename returns the errors that need no lookup, in the order in which the partitions return them.
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

// lookAbove finds the ways up that show whether a directory would be moved below itself. It stores them in
// cmd, and returns their partitions.
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

// maxChain bounds the number of changes of the partition on the path from a directory to the root.
const maxChain = 256

// chain returns dir, and each directory on the path to the root that has its child on the path in another
// partition.
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
