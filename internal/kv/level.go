package kv

import (
	"errors"
	"fmt"
	"os"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Options of a store on disk, in bytes; 0 takes the default. A server has a store for
// each of its replicas, so the defaults are small.
type Options struct {
	WriteBuffer int // gathered in memory before LevelDB makes a table of it, twice at most; default 4 MiB
	BlockCache  int // of LevelDB, for a small store; a large one has more (blockCache); default 8 MiB
	ValueCache  int // values read or written lately; default 2 MiB
}

// Defaults of Options, and values without an option.
const (
	defaultWriteBuffer = 4 << 20
	defaultBlockCache  = 8 << 20
	defaultValueCache  = 2 << 20
	openTables         = 1024 // of 2 MiB: a read of another table has to open it first
	bloomBitsPerKey    = 10
)

// Open opens the store in dir, which it makes if it is missing. One process at a time
// may have it open.
func Open(dir string, o Options) (*Store, error) {
	db, err := openDatabase(dir, o)
	if err != nil {
		return nil, err
	}
	l := &level{database: db, dir: dir, cache: cache{limit: o.ValueCache}}
	if l.cache.limit == 0 {
		l.cache.limit = defaultValueCache
	}
	return &Store{base: l}, nil
}

// database is a LevelDB with the cache of its blocks.
type database struct {
	db     *leveldb.DB
	blocks *blockCache
	files  storage.Storage
}

func openDatabase(dir string, o Options) (*database, error) {
	if err := takePlace(dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	files, err := storage.OpenFile(dir, false)
	if err != nil {
		return nil, openError(dir, err)
	}
	d := &database{files: files, blocks: newBlockCache(o.BlockCache)}
	if d.db, err = leveldb.Open(&journaled{Storage: files}, o.level(d.blocks)); err != nil {
		return nil, errors.Join(openError(dir, err), files.Close())
	}
	d.blocks.fit(d.db)
	return d, nil
}

// write applies a batch.
func (d *database) write(b *leveldb.Batch, sync bool) error {
	if b.Len() == 0 {
		b.Delete(syncMark)
	}
	if err := d.db.Write(b, &opt.WriteOptions{Sync: sync, NoWriteMerge: true}); err != nil {
		return fmt.Errorf("write store: %w", mark(err))
	}
	d.blocks.wrote(d.db, len(b.Dump()))
	return nil
}

func (d *database) close() error { return errors.Join(d.db.Close(), d.files.Close()) }

// openError adds the remedy to an error.
func openError(dir string, err error) error {
	switch {
	case errors.Is(err, storage.ErrLocked), errors.Is(err, errAgain):
		return fmt.Errorf("open store %s: another process has it open: %w", dir, err)
	case errors.Is(mark(err), ErrDamaged):
		return fmt.Errorf("open store %s: the files of the store are damaged: %w", dir, mark(err))
	}
	return fmt.Errorf("open store %s: %w", dir, err)
}

func (o Options) level(blocks *blockCache) *opt.Options {
	l := &opt.Options{
		WriteBuffer:            o.WriteBuffer,
		BlockCacher:            blocks.option(),
		OpenFilesCacheCapacity: openTables,
		Filter:                 filter.NewBloomFilter(bloomBitsPerKey),
		Strict:                 opt.DefaultStrict | opt.StrictManifest | opt.StrictJournal,
	}
	if l.WriteBuffer == 0 {
		l.WriteBuffer = defaultWriteBuffer
	}
	return l
}

// level keeps committed entries in LevelDB.
type level struct {
	*database
	dir   string
	cache cache
	batch leveldb.Batch
}

func (l *level) get(key []byte) ([]byte, error) {
	if value, ok := l.cache.get(key); ok {
		return value, nil
	}
	value, err := l.db.Get(key, nil)
	switch {
	case errors.Is(err, leveldb.ErrNotFound):
		value = nil
	case err != nil:
		return nil, fmt.Errorf("read store: %w", mark(err))
	case value == nil:
		value = []byte{}
	}
	l.cache.put(string(key), value)
	return value, nil
}

func (l *level) scan(from, to []byte, yield func(key, value []byte) bool) error {
	return scanLevel(l.db, &util.Range{Start: from, Limit: to}, nil, yield)
}

func scanLevel(db leveldb.Reader, within *util.Range, o *opt.ReadOptions, yield func(key, value []byte) bool) error {
	it := db.NewIterator(within, o)
	defer it.Release()
	for it.Next() {
		value := it.Value()
		if value == nil {
			value = []byte{}
		}
		if !yield(it.Key(), value) {
			break
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("scan store: %w", mark(err))
	}
	return nil
}

// syncMark is a key that never exists. Its deletion forces a sync when there is nothing else to write:
// LevelDB skips an empty batch.
var syncMark = []byte{0xff}

func (l *level) write(pending *table, sync bool) error {
	l.batch.Reset()
	for _, run := range pending.runs {
		for _, e := range run {
			if e.value == nil {
				l.batch.Delete(e.key)
			} else {
				l.batch.Put(e.key, e.value)
			}
			l.cache.put(string(e.key), e.value)
		}
	}
	return l.database.write(&l.batch, sync)
}

// verify reads the blocks from the files, and not from the cache.
func (l *level) verify(each func(bytes int) bool) error {
	return scanLevel(l.db, nil, &opt.ReadOptions{DontFillCache: true, Strict: opt.StrictAll}, func(key, value []byte) bool {
		return each(len(key) + len(value))
	})
}
