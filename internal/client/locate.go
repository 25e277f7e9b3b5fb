package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Location is the place of an inode, and the reason for it.
type Location struct {
	Partition uint16
	Region    topology.Region // region of a local partition; empty: global
	Replicas  []topology.Replica
	Leader    multicast.ProcessID // 0: no replica reports to be the leader
	Why       string
	Rule      meta.Rule  // of a directory: where new inodes in it go
	Task      *meta.Task // of a directory: the move of its contents that is under way; nil: none
}

// Locate returns the location of an inode.
func (p *Placing) Locate(ctx context.Context, ino posix.Ino) (Location, error) {
	ctx, cancel := p.router.Operation(ctx)
	defer cancel()
	a, err := p.router.Query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino}, route.Inode(ino))
	if err != nil {
		return Location{}, err
	}
	at := &p.router.Cluster().Partitions[a.Partition]
	l := Location{Partition: at.ID, Region: at.Region, Replicas: at.Replicas, Leader: p.router.Leader(ctx, at.ID)}
	if a.Attr.Mode.IsDir() {
		own, err := p.names.askPlacing(ctx, ino)
		if err != nil {
			return Location{}, p.outcome(err)
		}
		l.Rule = own.rule
	}
	far, end := context.WithTimeout(ctx, min(farPatience, p.cfg.Timeout))
	defer end()
	if a.Attr.Mode.IsDir() {
		if l.Task, err = p.taskOf(far, at.ID, ino); err != nil {
			l.Why = "not known now: a partition that would know does not answer"
			return l, nil
		}
	}
	if l.Why, err = p.why(far, &a, &l.Rule); err != nil {
		l.Why = "not known now: a partition that would know does not answer"
	}
	return l, nil
}

// Where returns the attributes of an inode and the partition that it is in.
func (p *Placing) Where(ctx context.Context, ino posix.Ino) (posix.Attr, uint16, error) {
	a, err := p.router.Query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino}, route.Inode(ino))
	if err != nil {
		return posix.Attr{}, 0, err
	}
	return a.Attr, a.Partition, nil
}

// taskOf returns the task of a directory in a partition; nil: there is none. The task may be in the partition
// in which the directory was made.
func (p *Placing) taskOf(ctx context.Context, at uint16, dir posix.Ino) (*meta.Task, error) {
	for _, partition := range slices.Compact([]uint16{at, dir.Partition()}) {
		tasks, err := p.tasks(ctx, partition)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(tasks, func(t meta.Task) bool { return t.Dir == dir }); i >= 0 {
			return &tasks[i], nil
		}
	}
	return nil, nil
}

// why describes the reason for the place of an inode. a is the answer with the inode.
func (p *Placing) why(ctx context.Context, a *route.Answer, own *meta.Rule) (string, error) {
	ino, here := a.Attr.Ino, a.Partition
	if ino.Counter() == posix.Root.Counter() {
		return "root of the partition", nil
	}
	if own.Region != "" && here != ino.Partition() && slices.Contains(own.Spread, here) {
		return fmt.Sprintf("it was placed in %s (its own rule)", own.Region), nil
	}
	placed, rule, err := p.placedAbove(ctx, a)
	switch {
	case err != nil:
		return "", err
	case placed != 0:
		return fmt.Sprintf("its directory was placed in %s (rule of inode %d)", rule.Region, placed), nil
	case here == ino.Partition():
		return "made here", nil
	}
	if !a.Attr.Mode.IsDir() {
		return "moved: by a rename, or with a directory that was placed", nil
	}
	return "moved by a rename", nil
}

// maxAbove bounds the number of directories that placedAbove reads.
const maxAbove = 64

// placedAbove returns the nearest directory above a that has a rule which names the partition of a. For a
// file it returns 0, because files do not know their directories.
func (p *Placing) placedAbove(ctx context.Context, a *route.Answer) (posix.Ino, meta.Rule, error) {
	if !a.Attr.Mode.IsDir() {
		return 0, meta.Rule{}, nil
	}
	dir := a.Attr.Ino
	for range maxAbove {
		up, err := p.router.Query(ctx, &meta.Command{Op: meta.OpLookup, Ino: dir, Name: ".."}, route.Inode(dir))
		if err != nil || up.Attr.Ino == dir {
			return 0, meta.Rule{}, err
		}
		p.router.Suggest(up.Attr.Ino, uint16(up.Number))
		dir = up.Attr.Ino
		of, err := p.names.askPlacing(ctx, dir)
		if err != nil {
			return 0, meta.Rule{}, err
		}
		if slices.Contains(of.rule.Spread, a.Partition) {
			return dir, of.rule, nil
		}
	}
	return 0, meta.Rule{}, nil
}

// Stale returns the age of the data that reads in an inode's partition return, at the nearest replica that
// answers. It is small as long as that replica receives messages from a quorum.
func (p *Placing) Stale(ctx context.Context, ino posix.Ino) (time.Duration, error) {
	at, err := p.router.At(ino)
	if err != nil {
		return 0, err
	}
	status, err := p.router.Status(ctx, at)
	return status.Age, err
}
