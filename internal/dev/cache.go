package dev

import (
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/topology"
)

// DefaultCacheBytes is a good Config.CacheBytes.
const DefaultCacheBytes = 10 << 30

// openCache opens the cache on this machine's disk; nil if none is wanted.
func openCache(cfg *Config, plan *topology.Cluster) (*block.DiskCache, error) {
	if cfg.CacheDir == "" {
		return nil, nil
	}
	return block.OpenDiskCache(block.DiskCacheConfig{
		Dir: cfg.CacheDir, MaxBytes: cfg.CacheBytes, Cluster: string(plan.Identity()), Log: cfg.Logger.With("component", "block cache"),
	})
}

// remembered is the store of a partition behind the caches: the client's in memory, of so many bytes for all partitions, and this process's
// on disk if there is one.
func (c *Cluster) remembered(store block.Store, cacheBytes int) block.Store {
	if c.cache != nil {
		store = c.cache.Over(store)
	}
	return block.NewCached(store, cacheBytes/len(c.Plan.Partitions))
}
