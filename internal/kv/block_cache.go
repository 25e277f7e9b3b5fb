package kv

import (
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb"
	ldbcache "github.com/syndtr/goleveldb/leveldb/cache"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// The cache of blocks grows with the store. To read one block of 4 KiB, a read of any key needs the filter
// and the index of a table, which are 100 to 200 KiB long. The filters and indexes of all tables take
// about a tenth of the bytes of the tables, and more in buffers that LevelDB uses again. If the cache has
// no room for them, each read loads and checks them again.
const (
	cachedPart  = 6         // the cache of a small store grows by a sixth of the bytes of the tables,
	cachedMost  = 256 << 20 // but at most by so many bytes
	fitInterval = 4 << 20   // bytes of writes between two looks at the size of the store
)

// blockCache is the cache of a store for blocks of its tables.
type blockCache struct {
	blocks  ldbcache.Cacher
	least   int          // size of the cache of a small store
	written atomic.Int64 // bytes since the last fit
}

func newBlockCache(least int) *blockCache {
	if least == 0 {
		least = defaultBlockCache
	}
	return &blockCache{blocks: ldbcache.NewLRU(least), least: least}
}

// option returns the cache for the options of LevelDB.
func (c *blockCache) option() opt.Cacher { return opt.PassthroughCacher(c.blocks) }

// wrote records a write, and sometimes fits the cache to the store.
func (c *blockCache) wrote(db *leveldb.DB, bytes int) {
	if c.written.Add(int64(bytes)) >= fitInterval {
		c.fit(db)
	}
}

// fit sets the size of the cache by the size of the store. A closed store has no size, and stays as it is.
func (c *blockCache) fit(db *leveldb.DB) {
	c.written.Store(0)
	var s leveldb.DBStats
	if db.Stats(&s) == nil {
		c.blocks.SetCapacity(c.least + int(min(s.LevelSizes.Sum()/cachedPart, cachedMost)))
	}
}
