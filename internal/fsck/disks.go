package fsck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// disks are the stores of a stopped cluster: of its servers, or of its regions in object storage.
type disks map[topology.Region][]block.Store

// blocks checks the stores for the blocks that the metadata of all partitions names.
func (c *offline) blocks(ctx context.Context, o *Options, newest []meta.Reader) (err error) {
	if c.plan.Objects != nil && o.Objects == nil {
		c.report.Notes = append(c.report.Notes, "the blocks are in object storage: they were not checked")
		return nil
	}
	d, end, err := c.stores(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	o.countBlocks(c.report.Partitions)
	for i, keys := range newest {
		find := func(ctx context.Context, id posix.BlockID) (string, error) { return d.find(ctx, c.plan, uint16(i), id) }
		if err := c.report.blocks(ctx, o, &c.report.Partitions[i], keys, find); err != nil {
			return err
		}
	}
	return nil
}

// stores opens all stores; end closes them.
func (c *offline) stores(ctx context.Context, o *Options) (d disks, end func() error, err error) {
	d = disks{}
	if c.plan.Objects != nil {
		regions, end, err := o.Objects(ctx, c.plan)
		for r, store := range regions {
			d[r] = []block.Store{store}
		}
		return d, end, err
	}
	var open []*disk.Store
	for _, s := range c.plan.Servers {
		if c.dirs[s.Name] == "" {
			continue
		}
		dir := filepath.Join(c.dirs[s.Name], "blocks")
		if _, err := os.Stat(dir); err != nil {
			c.report.add("storage of "+s.Name, fmt.Sprintf("there is none: %v", err))
			continue
		}
		store, err := disk.Open(disk.DefaultConfig(dir))
		if err != nil {
			c.report.add("storage of "+s.Name, err.Error())
			continue
		}
		open = append(open, store)
		d[s.Region] = append(d[s.Region], store)
	}
	return d, func() error {
		var errs []error
		for _, store := range open {
			errs = append(errs, store.Close())
		}
		return errors.Join(errs...)
	}, nil
}

// find names the regions that lack a block and should have it. A block that came with a file from another
// partition may instead be in the regions of the partition where it was written.
func (d disks) find(ctx context.Context, plan *topology.Cluster, partition uint16, id posix.BlockID) (string, error) {
	var without []string
	regions := plan.Partitions[partition].Regions()
	for _, r := range regions {
		has, err := d.has(ctx, r, id)
		if err != nil {
			return "", err
		}
		if !has {
			without = append(without, string(r))
		}
	}
	if len(without) == 0 {
		return "", nil
	}
	if writer := binary.BigEndian.Uint16(id[:]); writer != partition && int(writer) < len(plan.Partitions) {
		for _, r := range plan.Partitions[writer].Regions() {
			if has, err := d.has(ctx, r, id); has || err != nil {
				return "", err
			}
		}
	}
	return "there is no good copy in " + strings.Join(without, ", "), nil
}

func (d disks) has(ctx context.Context, region topology.Region, id posix.BlockID) (bool, error) {
	for _, store := range d[region] {
		_, err := store.Get(ctx, id, nil)
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, block.ErrNotFound) && !errors.Is(err, block.ErrCorrupt):
			return false, err
		}
	}
	return false, nil
}
