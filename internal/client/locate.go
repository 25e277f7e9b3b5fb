package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Location is where an inode is, and why.
type Location struct {
	Partition uint16
	Region    topology.Region // of a local partition; empty: global
	Replicas  []topology.Replica
	Leader    multicast.ProcessID // 0: none says it leads
	Why       string
	Rule      meta.Rule  // of a directory: where what is made in it goes
	Task      *meta.Task // of a directory: what is to be moved from there, nil if nothing is
}

// Locate says where an inode is.
func (c *Client) Locate(ctx context.Context, ino posix.Ino) (Location, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	a, err := c.askAt(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
	if err != nil {
		return Location{}, c.outcome(err)
	}
	p := &c.Cluster().Partitions[a.partition.id]
	l := Location{Partition: p.ID, Region: p.Region, Replicas: p.Replicas, Leader: c.leader(ctx, a.partition)}
	if a.Attr.Mode.IsDir() {
		if l.Rule, err = c.askRule(ctx, ino); err != nil {
			return Location{}, c.outcome(err)
		}
	}
	far, end := context.WithTimeout(ctx, min(farPatience, c.cfg.Timeout))
	defer end()
	if a.Attr.Mode.IsDir() {
		if l.Task, err = c.taskOf(far, a.partition, ino); err != nil {
			l.Why = "not known now: a partition that would know does not answer"
			return l, nil
		}
	}
	if l.Why, err = c.why(far, &a, &l.Rule); err != nil {
		l.Why = "not known now: a partition that would know does not answer"
	}
	return l, nil
}

// leader gives the replica of p that says it leads.
func (c *Client) leader(ctx context.Context, p *partition) multicast.ProcessID {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leads := make(chan multicast.ProcessID)
	replicas := p.route.Load().replicas
	for _, r := range replicas {
		c.running.Go(func() {
			reply, err := c.try(ctx, r.Process, &ask.Request{Kind: ask.AskStatus}, firstPatience)
			s, malformed := ask.DecodeStatus(reply.Result)
			leader := multicast.ProcessID(0)
			if err == nil && malformed == nil && s.Leads {
				leader = r.Process
			}
			select {
			case leads <- leader:
			case <-ctx.Done():
			}
		})
	}
	for range replicas {
		select {
		case leader := <-leads:
			if leader != 0 {
				return leader
			}
		case <-ctx.Done():
			return 0
		}
	}
	return 0
}

// taskOf gives the task of a directory in p, nil if there is none. It may have been given where the directory was made, and
// stayed there.
func (c *Client) taskOf(ctx context.Context, p *partition, dir posix.Ino) (*meta.Task, error) {
	home, err := c.home(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Compact([]*partition{p, home}) {
		tasks, err := c.tasks(ctx, p)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(tasks, func(t meta.Task) bool { return t.Dir == dir }); i >= 0 {
			return &tasks[i], nil
		}
	}
	return nil, nil
}

// why says in words why an inode is where a is from.
func (c *Client) why(ctx context.Context, a *answer, own *meta.Rule) (string, error) {
	ino, here := a.Attr.Ino, a.partition.id
	if ino.Counter() == posix.Root.Counter() {
		return "root of the partition", nil
	}
	if own.Region != "" && len(own.Spread) == 0 {
		return fmt.Sprintf("it was placed in %s (its own rule)", own.Region), nil
	}
	placed, rule, err := c.placedAbove(ctx, a)
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

// maxAbove bounds how far up the tree a placement is looked for.
const maxAbove = 64

// placedAbove gives the nearest directory above a whose rule sends what is below it to where a is. Files do not know their
// directories: of them nothing is found.
func (c *Client) placedAbove(ctx context.Context, a *answer) (posix.Ino, meta.Rule, error) {
	if !a.Attr.Mode.IsDir() {
		return 0, meta.Rule{}, nil
	}
	dir := a.Attr.Ino
	for range maxAbove {
		up, err := c.ask(ctx, &meta.Command{Op: meta.OpLookup, Ino: dir, Name: ".."})
		if err != nil || up.Attr.Ino == dir {
			return 0, meta.Rule{}, err
		}
		c.suggest(up.Attr.Ino, uint16(up.Number))
		dir = up.Attr.Ino
		rule, err := c.askRule(ctx, dir)
		if err != nil {
			return 0, meta.Rule{}, err
		}
		if slices.Contains(rule.Spread, a.partition.id) {
			return dir, rule, nil
		}
	}
	return 0, meta.Rule{}, nil
}

// Stale gives the age of what is read of an inode's partition here: of what the nearest replica that answers has. It is small
// as long as that replica hears from a quorum of the partition.
func (c *Client) Stale(ctx context.Context, ino posix.Ino) (time.Duration, error) {
	p, err := c.at(ino)
	if err != nil {
		return 0, err
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	reply, _, err := c.exchange(ctx, p, reading, func() ask.Request { return ask.Request{Kind: ask.AskStatus} })
	if err != nil {
		return 0, c.outcome(err)
	}
	if reply.Status != ask.Answered {
		return 0, c.outcome(c.refused(p, &reply))
	}
	status, err := ask.DecodeStatus(reply.Result)
	return status.Age, c.outcome(err)
}
