package salvage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// blocks are the stores that are left.
type blocks struct {
	stores []block.Store
	ends   []func() error
	backup *backup.Repository // nil: there is none
	lost   map[posix.BlockID]bool
}

func (b *blocks) close() error {
	var errs []error
	for _, end := range b.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// open opens the stores of the servers, or the regions' stores in object storage.
func (b *blocks) open(ctx context.Context, s *Salvage) error {
	if s.plan.Objects != nil {
		regions, end, err := s.options.Objects(ctx, s.plan)
		if err != nil {
			return err
		}
		b.ends = append(b.ends, end)
		for _, r := range slices.Sorted(maps.Keys(regions)) {
			b.stores = append(b.stores, regions[r])
		}
		return nil
	}
	for _, server := range s.servers {
		dir := filepath.Join(server.Dir, "blocks")
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		store, err := disk.Open(disk.DefaultConfig(dir))
		if err != nil {
			return fmt.Errorf("%s: %w: move the directory away to recover without its blocks", dir, err)
		}
		b.stores, b.ends = append(b.stores, store), append(b.ends, store.Close)
	}
	return nil
}

// get returns a good copy of a block.
func (b *blocks) get(ctx context.Context, id posix.BlockID) ([]byte, error) {
	for _, store := range b.stores {
		data, err := store.Get(ctx, id, nil)
		if err == nil || !errors.Is(err, block.ErrNotFound) && !errors.Is(err, block.ErrCorrupt) {
			return data, err
		}
	}
	if b.backup != nil {
		data, err := b.backup.ReadBlock(ctx, id) // one that is missing or damaged there is lost
		if err == nil || ctx.Err() != nil {
			return data, err
		}
	}
	return nil, backup.ErrLost
}

// findBlocks finds the blocks that are lost, and the files that they belong to.
func (s *Salvage) findBlocks(ctx context.Context) error {
	b := &s.blocks
	b.lost, b.backup = map[posix.BlockID]bool{}, s.options.Backup
	if err := b.open(ctx, s); err != nil {
		return err
	}
	files := map[posix.Ino]bool{}
	var keys []meta.Keys
	for _, x := range s.parts {
		keys = append(keys, x.keys)
		for id, ino := range meta.Held(x.keys) {
			_, err := b.get(ctx, id)
			if err != nil && !errors.Is(err, backup.ErrLost) {
				return err
			}
			if err != nil {
				b.lost[id], files[ino] = true, true
			}
		}
		if err := x.keys.Err(); err != nil {
			return err
		}
	}
	s.Statement.LostBlocks, s.Statement.LostFiles = len(b.lost), meta.Paths(keys, files)
	return nil
}

// Plan implements backup.Cluster.
func (s *Salvage) Plan() *topology.Cluster { return s.plan }

// Name implements backup.Cluster.
func (s *Salvage) Name() string { return s.name }

// Check implements backup.Cluster.
func (s *Salvage) Check(context.Context) error { return nil }

// Mark implements backup.Cluster. A state that is recovered does not change.
func (s *Salvage) Mark(context.Context, uint16, uint64, bool) (newest uint64, err error) {
	return 0, nil
}

// State implements backup.Cluster.
func (s *Salvage) State(_ context.Context, partition uint16, _ uint64, into io.Writer) error {
	return meta.Snapshot(s.parts[partition].keys, into)
}

// Block implements backup.Cluster. The error of a block that is lost is backup.ErrLost.
func (s *Salvage) Block(ctx context.Context, _ uint16, id posix.BlockID) ([]byte, error) {
	if s.blocks.lost[id] {
		return nil, backup.ErrLost
	}
	return s.blocks.get(ctx, id)
}

// PutBlock implements backup.Cluster. A cluster that is recovered takes no blocks.
func (s *Salvage) PutBlock(context.Context, uint16, posix.BlockID, []byte) error {
	return errors.New("the cluster is stopped")
}
