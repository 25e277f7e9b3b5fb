package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/varint"
)

// index is the LevelDB of one server: its small blocks, the places of the others, and the usage of each
// segment. Many goroutines may read it at once. Package kv ensures that after a crash the index has the
// effects of a prefix of the commits. LevelDB alone does not ensure that (S1, S5).
type index struct {
	store  *kv.Shared
	ledger ledger
}

// The keys: an id follows keyBlock, the number of a segment (big endian) keyUsage.
const (
	keyBlock    = 'b'
	keyFrontier = 'f'
	keyInline   = 'i'
	keyUsage    = 's'
)

// indexDown means that an index cannot be used any more: it is damaged, or could not be opened. Store.restore
// opens it again or rebuilds it.
type indexDown struct {
	index *index // nil: none is open
	cause error
}

// Error returns the reason.
func (d *indexDown) Error() string { return "block index: " + d.cause.Error() }

// Unwrap returns the cause.
func (d *indexDown) Unwrap() error { return d.cause }

// openIndex opens or makes the index in dir. It uses little memory, because a process may have a dozen stores
// and the kernel caches the files anyway. With many blocks its cache grows (package kv).
func openIndex(dir string) (*index, error) {
	store, err := kv.OpenShared(dir, kv.Options{WriteBuffer: 2 << 20, BlockCache: 2 << 20})
	if err != nil {
		return nil, fmt.Errorf("block index: %w", spaceError(err))
	}
	return &index{store: store, ledger: ledger{segments: make(map[uint32]segmentUsage)}}, nil
}

func (x *index) close() error { return x.explain(x.store.Close()) }

// value returns the value of a key, nil if there is none.
func (x *index) value(key []byte) ([]byte, error) {
	value, err := x.store.Get(key)
	return value, x.explain(err)
}

// get returns the entry of a block; ErrNotFound if there is none.
func (x *index) get(id block.ID) (entry, error) {
	value, err := x.value(blockKey(id))
	if err != nil {
		return entry{}, err
	}
	if value == nil {
		return entry{}, block.ErrNotFound
	}
	e, err := decodeEntry(value)
	if err != nil {
		return entry{}, x.damaged("entry of block %v: %w", id, err)
	}
	return e, nil
}

// frontier returns the frontier of the last commit and the version of the format; the zero place and 0 if
// there is none.
func (x *index) frontier() (segfile.Place, uint8, error) {
	value, err := x.value([]byte{keyFrontier})
	if err != nil || value == nil {
		return segfile.Place{}, 0, err
	}
	p, version, err := decodeFrontier(value)
	if err != nil {
		return segfile.Place{}, 0, fmt.Errorf("frontier of the index: %w", err)
	}
	return p, version, nil
}

// scan returns up to limit ids from from to to, both included.
func (x *index) scan(from, to block.ID, limit int) ([]block.ID, error) {
	var ids []block.ID
	err := x.store.Scan(blockKey(from), append(blockKey(to), 0), func(key, _ []byte) bool {
		if id, ok := keyID(key); ok {
			ids = append(ids, id)
		}
		return len(ids) < limit
	})
	return ids, x.explain(err)
}

// entries calls do with each entry until do returns false.
func (x *index) entries(do func(block.ID, *entry) bool) error {
	var bad error
	err := x.store.Scan([]byte{keyBlock}, []byte{keyBlock + 1}, func(key, value []byte) bool {
		id, ok := keyID(key)
		e, err := decodeEntry(value)
		if !ok || err != nil {
			bad = x.damaged("entry %x: %w", key, errors.Join(err, errKey))
			return false
		}
		return do(id, &e)
	})
	return errors.Join(bad, x.explain(err))
}

var errKey = errors.New("no entry of a block")

// usages calls do with the usage of each segment, and returns that of the small blocks.
func (x *index) usages(do func(segment uint32, u usage)) (inline usage, err error) {
	var bad error
	err = x.store.Scan([]byte{keyUsage}, []byte{keyUsage + 1}, func(key, value []byte) bool {
		u, err := parseUsage(value)
		if err != nil || len(key) != 5 {
			bad = x.damaged("usage %x: %w", key, errors.Join(err, errKey))
			return false
		}
		do(binary.BigEndian.Uint32(key[1:]), u)
		return true
	})
	if err := errors.Join(bad, x.explain(err)); err != nil {
		return usage{}, err
	}
	value, err := x.value([]byte{keyInline})
	if err != nil || value == nil {
		return usage{}, err
	}
	if inline, err = parseUsage(value); err != nil {
		return usage{}, x.damaged("usage of small blocks: %w", err)
	}
	return inline, nil
}

// commit applies c. With sync, it makes this commit and all earlier ones durable. After an error, the index
// must be opened again before the next commit.
func (x *index) commit(c *changes, sync bool) error { return x.explain(x.store.Write(&c.batch, sync)) }

// damaged returns the error of an inconsistent index.
func (x *index) damaged(format string, args ...any) error {
	return &indexDown{index: x, cause: fmt.Errorf("%w: "+format, append([]any{kv.ErrDamaged}, args...)...)}
}

// explain converts errors of package kv to those that callers check.
func (x *index) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrClosed):
		return block.ErrClosed
	case errors.Is(err, kv.ErrDamaged):
		return &indexDown{index: x, cause: err}
	}
	return spaceError(fmt.Errorf("block index: %w", err))
}

// changes is a batch of changes to the index: applied together or not at all. A later
// change of the same key replaces an earlier one.
type changes struct{ batch kv.Batch }

func (c *changes) set(id block.ID, e *entry) { c.batch.Set(blockKey(id), e.append(nil)) }

func (c *changes) drop(id block.ID) { c.batch.Delete(blockKey(id)) }

func (c *changes) setFrontier(p segfile.Place) {
	c.batch.Set([]byte{keyFrontier}, appendFrontier(nil, p))
}

func (c *changes) setUsage(segment uint32, u usage) { c.batch.Set(usageKey(segment), u.append(nil)) }

func (c *changes) dropUsage(segment uint32) { c.batch.Delete(usageKey(segment)) }

func (c *changes) setInline(u usage) { c.batch.Set([]byte{keyInline}, u.append(nil)) }

func blockKey(id block.ID) []byte {
	key := make([]byte, 0, 2+len(id))
	return append(append(key, keyBlock), id[:]...)
}

func keyID(key []byte) (block.ID, bool) {
	rest, ok := bytes.CutPrefix(key, []byte{keyBlock})
	if !ok || len(rest) != len(block.ID{}) {
		return block.ID{}, false
	}
	return block.ID(rest), true
}

func usageKey(segment uint32) []byte { return binary.BigEndian.AppendUint32([]byte{keyUsage}, segment) }

// append appends the encoding of u.
func (u usage) append(b []byte) []byte {
	return varint.AppendUint(varint.AppendUint(b, u.bytes), u.blocks)
}

func parseUsage(b []byte) (usage, error) {
	r := varint.NewReader(b)
	u := usage{bytes: r.Uint(math.MaxInt64), blocks: r.Uint(math.MaxInt64)}
	return u, r.Done()
}

// spaceError marks the kernel's error for a full disk, quota or process limit as ErrNoSpace.
func spaceError(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w: %w", block.ErrNoSpace, err)
	}
	return err
}
