// Package blocktest has the tools for tests of block stores: the suite that every block.Store passes, a store
// in memory, and a region in one process with servers that can fail.
package blocktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
)

// Sizes are block sizes around every limit, in bytes.
var Sizes = []int{1, 256, 257, 4096, 4097, 32 << 10, block.MaxSize}

// Block returns the i-th block of a given size: an id and bytes that differ from those of all others.
func Block(i, size int) (block.ID, []byte) {
	var id block.ID
	id[0], id[6], id[7] = byte(i>>8), byte(i), byte(size>>8)
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(size), byte(size >> 8), byte(size >> 16)})
	_, _ = random.Read(data)
	return id, data
}

// TestStore runs the suite on stores that open makes, each of them empty. It
// checks that no goroutine of the packages under test outlives them.
func TestStore(t *testing.T, open func(t *testing.T) block.Store) {
	for name, test := range map[string]func(*testing.T, block.Store){
		"PutGet":     testPutGet,
		"PutAll":     testPutAll,
		"Into":       testInto,
		"Idempotent": testIdempotent,
		"NotFound":   testNotFound,
		"Size":       testSize,
		"WrongSum":   testWrongSum,
		"Delete":     testDelete,
		"Range":      testRange,
		"Concurrent": testConcurrent,
		"Cancelled":  testCancelled,
	} {
		t.Run(name, func(t *testing.T) {
			CheckLeaks(t)
			test(t, open(t))
		})
	}
}

func testPutGet(t *testing.T, s block.Store) {
	for i, size := range Sizes {
		id, data := Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		RequireBlock(t, s, id, data)
	}
	for i, size := range Sizes {
		id, data := Block(i, size)
		RequireBlock(t, s, id, data)
	}
}

// testPutAll: several blocks at once are put as one by one.
func testPutAll(t *testing.T, s block.Store) {
	var all []block.Block
	for i, size := range Sizes[:len(Sizes)-1] {
		id, data := Block(i, size)
		all = append(all, block.New(id, data))
	}
	err := block.PutAll(t.Context(), s, all[1:])
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	require.NoError(t, block.PutAll(t.Context(), s, all), "some are there")
	for _, b := range all {
		RequireBlock(t, s, b.ID, b.Data)
	}
	for i, size := range Sizes[:len(Sizes)-1] {
		_, other := Block(i+100, size)
		id, _ := Block(i+200, size)
		conflict := []block.Block{block.New(id, other), block.New(all[i].ID, other)}
		require.ErrorIs(t, block.PutAll(t.Context(), s, conflict), block.ErrConflict)
		RequireBlock(t, s, all[i].ID, all[i].Data)
	}
	require.Error(t, block.PutAll(t.Context(), s, []block.Block{all[0], {ID: block.ID{9}}}), "it has no data")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, block.PutAll(ctx, s, all), context.Canceled)
}

// RequireBlock fails the test unless s returns data as the content of block id.
func RequireBlock(t testing.TB, s block.Store, id block.ID, data []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), id, nil)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got), "block %v: %d bytes put, %d other bytes got", id, len(data), len(got))
}

func testInto(t *testing.T, s block.Store) {
	for i, size := range Sizes {
		id, data := Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		for _, capacity := range []int{0, size - 1, size, size + 100} {
			into := bytes.Repeat([]byte{0xee}, capacity)
			got, err := s.Get(t.Context(), id, into)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
			if capacity >= size {
				require.Same(t, &into[0], &got[0], "a buffer that is large enough is used")
				clear(got) // a caller may change its own bytes
			}
		}
		RequireBlock(t, s, id, data)
		into := slices.Clone(data)
		clear(data)
		RequireBlock(t, s, id, into)
	}
}

func testIdempotent(t *testing.T, s block.Store) {
	for i, size := range Sizes {
		id, data := Block(i, size)
		for range 3 {
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		}
		_, other := Block(i+100, size)
		require.ErrorIs(t, s.Put(t.Context(), block.New(id, other)), block.ErrConflict)
		RequireBlock(t, s, id, data)
	}
	ids, err := Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Len(t, ids, len(Sizes))
}

func testNotFound(t *testing.T, s block.Store) {
	id, data := Block(1, 10)
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrNotFound)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	id[15]++
	_, err = s.Get(t.Context(), id, make([]byte, 20))
	require.ErrorIs(t, err, block.ErrNotFound)
}

func testSize(t *testing.T, s block.Store) {
	id, _ := Block(1, 1)
	require.Error(t, s.Put(t.Context(), block.New(id, nil)))
	require.Error(t, s.Put(t.Context(), block.New(id, make([]byte, block.MaxSize+1))))
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrNotFound)
}

// testWrongSum: a block with a wrong checksum never becomes a good one with other bytes, and does not prevent
// the put of the right one.
func testWrongSum(t *testing.T, s block.Store) {
	for i, size := range Sizes {
		id, data := Block(i, size)
		wrong := block.New(id, data)
		wrong.Sum ^= 1
		wrong = block.Block{ID: id, Sum: wrong.Sum, Data: wrong.Data}
		if s.Put(t.Context(), wrong) == nil {
			if got, err := s.Get(t.Context(), id, nil); err != nil {
				require.ErrorIs(t, err, block.ErrCorrupt)
			} else {
				require.True(t, bytes.Equal(data, got))
			}
		}
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		RequireBlock(t, s, id, data)
	}
}

func testDelete(t *testing.T, s block.Store) {
	var ids []block.ID
	for i, size := range Sizes {
		id, data := Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		ids = append(ids, id)
	}
	missing, _ := Block(99, 1)
	require.NoError(t, s.Delete(t.Context(), nil))
	require.NoError(t, s.Delete(t.Context(), append(ids[1:], missing)))
	for _, id := range ids[1:] {
		_, err := s.Get(t.Context(), id, nil)
		require.ErrorIs(t, err, block.ErrNotFound)
	}
	left, err := Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Equal(t, ids[:1], left)
	for i, size := range Sizes { // deleted blocks may come back
		id, data := Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		RequireBlock(t, s, id, data)
	}
}

// Collect returns the ids of a Range.
func Collect(seq func(func(block.ID, error) bool)) ([]block.ID, error) {
	var ids []block.ID
	for id, err := range seq {
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func testRange(t *testing.T, s block.Store) {
	ids := []block.ID{{}, block.LastID}
	for i := range 2500 { // more than two pages
		id, _ := Block(i, 3)
		ids = append(ids, id)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var writers sync.WaitGroup
	for some := range slices.Chunk(ids, 100) {
		writers.Go(func() {
			for _, id := range some {
				assert.NoError(t, s.Put(t.Context(), block.New(id, id[:])))
			}
		})
	}
	writers.Wait()
	slices.SortFunc(ids, func(a, b block.ID) int { return bytes.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)

	got, err := Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Equal(t, ids, got)
	for _, bound := range [][2]int{{0, 0}, {3, 5}, {1000, 2040}, {len(ids) - 1, len(ids) - 1}} {
		got, err = Collect(s.Range(t.Context(), ids[bound[0]], ids[bound[1]]))
		require.NoError(t, err)
		require.Equal(t, ids[bound[0]:bound[1]+1], got)
	}
	got, err = Collect(s.Range(t.Context(), ids[5], ids[4]))
	require.NoError(t, err)
	require.Empty(t, got)
	n := 0
	for _, err := range s.Range(t.Context(), block.ID{}, block.LastID) {
		require.NoError(t, err)
		if n++; n == 7 {
			break
		}
	}
}

func testConcurrent(t *testing.T, s block.Store) {
	const blocks = 24
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			buffer := make([]byte, 10000) // some do not fit
			for k := range blocks {
				i := (k + worker*5) % blocks
				id, data := Block(i, []int{100, 5000, 70000}[i%3])
				if err := s.Put(t.Context(), block.New(id, data)); err != nil {
					t.Errorf("put: %v", err)
					return
				}
				got, err := s.Get(t.Context(), id, buffer)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("get after put: %v", err)
					return
				}
				own, data := Block(1000+worker, 6000) // no other goroutine uses it
				if err := s.Put(t.Context(), block.New(own, data)); err != nil {
					t.Errorf("put: %v", err)
				}
				if err := s.Delete(t.Context(), []block.ID{own}); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	all.Wait()
	ids, err := Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Len(t, ids, blocks)
}

func testCancelled(t *testing.T, s block.Store) {
	id, data := Block(1, 5000)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other, _ := Block(2, 1)
	require.ErrorIs(t, s.Put(ctx, block.New(other, data)), context.Canceled)
	_, err := s.Get(ctx, id, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, []block.ID{id}), context.Canceled)
	_, err = Collect(s.Range(ctx, block.ID{}, block.LastID))
	require.ErrorIs(t, err, context.Canceled)
	RequireBlock(t, s, id, data)
}

// CheckLeaks fails the test if a goroutine of a block package runs at its end. It must be called before the
// tested stores are made.
func CheckLeaks(t testing.TB) {
	t.Cleanup(func() {
		var left string
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
			if left = leaked(); left == "" {
				return
			}
		}
		t.Errorf("goroutines left:\n%s", left)
	})
}

// ours matches functions of the block packages, not those of their tests.
var ours = regexp.MustCompile(`/internal/block(/disk|/diskcache|/region)?\.`)

// leaked returns the stacks of the goroutines that the block packages and LevelDB started. One of LevelDB's
// drains a buffer pool for a second after Close, by design.
func leaked() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left strings.Builder
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		_, creator, _ := strings.Cut(stack, "created by ")
		if ours.MatchString(creator) || strings.Contains(creator, "goleveldb") && !strings.Contains(stack, "mpoolDrain") {
			fmt.Fprintln(&left, stack)
		}
	}
	return left.String()
}
