package attach

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/topology"
)

// isFar reports whether a disk of this machine is nearer than the blocks of a partition: they are in object
// storage, or in other regions only.
func isFar(plan *topology.Cluster, p *topology.Partition, home topology.Region) bool {
	return plan.Objects != nil || !slices.Contains(p.Regions(), home)
}

// keepsOnDisk reports whether the blocks of a partition are kept in the cache on disk.
func (cfg *Config) keepsOnDisk(p *topology.Partition) bool {
	return cfg.Disk != nil && (!cfg.DiskFar || isFar(cfg.Cluster, p, cfg.Region))
}

// OpenDefaultDiskCache opens the cache on disk of a client in the region home that was given no directory.
// The cache is for blocks that are far (Config.DiskFar). Nil: no blocks are far, or the cache cannot be
// opened. The log reports this, and the client works without it.
func OpenDefaultDiskCache(most int64, plan *topology.Cluster, home topology.Region, logger *slog.Logger) *diskcache.Cache {
	if !slices.ContainsFunc(plan.Partitions, func(p topology.Partition) bool { return isFar(plan, &p, home) }) {
		return nil
	}
	dir, err := defaultCacheDir()
	if err == nil {
		var c *diskcache.Cache
		c, err = diskcache.OpenSlot(diskcache.Config{
			Dir: dir, MaxBytes: most, Cluster: string(plan.Identity()), Log: logger.With("component", "block cache"),
		})
		if err == nil {
			logger.Info("blocks that are far away are also kept on this machine's disk", "dir", dir)
			return c
		}
	}
	logger.Warn("blocks that are far away are not kept on this machine's disk: give --cache-dir a directory, or none", "error", err)
	return nil
}

// defaultCacheDir returns the directory for caches: the one that systemd has made for the service, or that of
// the machine for root, or that of the user.
func defaultCacheDir() (string, error) {
	if dirs := filepath.SplitList(os.Getenv("CACHE_DIRECTORY")); len(dirs) > 0 {
		return dirs[0], nil
	}
	if os.Geteuid() == 0 {
		return "/var/cache/globalfs", nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "globalfs"), err
}
