package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// Placing has the operations on the places of inodes, and on the placement of new inodes in directories.
type Placing struct {
	common
	names *Names
}

// Global names partition 0, which has replicas in all regions, as a region.
const Global topology.Region = "global"

// Placement determines the place of new inodes in a directory.
type Placement struct {
	// Region is a region of the cluster or Global. If Region and Spread are empty, new inodes go to the
	// partition of the directory.
	Region topology.Region
	// Spread, if not empty, has the regions over which children are distributed by hashes of their names.
	Spread []topology.Region
	// Move also moves the existing contents in the background, to Region or to the first region of Spread.
	Move bool
}

// Place sets the placement of a directory. It returns EINVAL if the cluster does not have the region.
func (p *Placing) Place(ctx context.Context, cred posix.Cred, dir posix.Ino, where Placement) error {
	rule, target, err := p.rule(&where)
	if err != nil {
		return err
	}
	cmd := &meta.Command{Op: meta.OpPlace, Cred: cred, Ino: dir, Data: rule.Append(nil), Target: target}
	if where.Move {
		cmd.Flags = meta.PlaceMove
	}
	_, _, err = p.names.settle(ctx, func(ctx context.Context, look bool) (plan, error) {
		if look {
			if err := p.names.find(ctx, dir); err != nil {
				return plan{}, err
			}
		}
		at, err := p.router.At(dir)
		return plan{cmd: cmd, to: route.Among(at, table)}, err
	})
	return err
}

// table is the partition with the table of all placements.
const table = 0

// rule converts a placement to partition numbers. target is the partition to which Move moves the contents.
func (p *Placing) rule(where *Placement) (rule meta.Rule, target uint16, err error) {
	regions := where.Spread
	if len(regions) == 0 && where.Region != "" {
		regions = []topology.Region{where.Region}
	}
	if len(regions) == 0 {
		if where.Move {
			return rule, 0, posix.EINVAL
		}
		return rule, 0, nil
	}
	names := make([]string, len(regions))
	for i, r := range regions {
		id, err := p.partitionOf(r)
		if err != nil {
			return rule, 0, err
		}
		names[i], rule.Spread = string(r), append(rule.Spread, id)
	}
	rule.Region, target = strings.Join(names, ","), rule.Spread[0]
	if where.Region != "" {
		rule.Region = string(where.Region)
		target, err = p.partitionOf(where.Region)
	}
	return rule, target, err
}

// partitionOf returns the partition of a region.
func (p *Placing) partitionOf(r topology.Region) (uint16, error) {
	if r == Global {
		return 0, nil
	}
	cluster := p.router.Cluster()
	for i := range cluster.Partitions {
		if of := &cluster.Partitions[i]; of.Region == r && r != "" {
			return of.ID, nil
		}
	}
	return 0, posix.EINVAL
}

// Placements returns the table of all placements.
func (p *Placing) Placements(ctx context.Context) ([]meta.Placement, error) {
	ctx, cancel := p.router.Operation(ctx)
	defer cancel()
	var all []meta.Placement
	for after := posix.Ino(0); ; {
		a, err := p.router.Query(ctx, &meta.Command{Op: meta.OpRules, Ino: after}, route.Partition(table))
		if err != nil {
			return nil, err
		}
		page, err := meta.DecodePlacements(a.Data)
		if err != nil {
			return nil, p.outcome(fmt.Errorf("partition %d: %w", table, err))
		}
		if len(page) == 0 {
			return all, nil
		}
		all, after = append(all, page...), page[len(page)-1].Dir
	}
}

// Move moves one inode with all its content to another partition. The inode keeps its number and its names.
// EFBIG means that the inode is too large for one command.
func (p *Placing) Move(ctx context.Context, ino posix.Ino, target uint16) (posix.Attr, error) {
	if err := p.has(target); err != nil {
		return posix.Attr{}, err
	}
	return p.names.move(ctx, ino, target)
}
