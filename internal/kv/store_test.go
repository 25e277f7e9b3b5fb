package kv

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func openDisk(t testing.TB, dir string) *Store {
	s, err := Open(dir, Options{WriteBuffer: 16 << 10, ValueCache: 1 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// each runs a test on both kinds of store.
func each(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("memory", func(t *testing.T) { test(t, NewMemory()) })
	t.Run("disk", func(t *testing.T) { test(t, openDisk(t, t.TempDir())) })
}

func collect(s *Store, from, to []byte) (all []string) {
	for k, v := range s.Scan(from, to) {
		all = append(all, string(k)+"="+string(v))
	}
	return all
}

func TestStoreIsAMap(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		rng := rand.New(rand.NewPCG(1, 1))
		model := map[string]string{}
		key := func() string { return fmt.Sprintf("%0*d", 1+rng.IntN(3), rng.IntN(400)) }
		for range 20000 {
			k := key()
			switch rng.IntN(16) {
			case 0:
				require.NoError(t, s.Commit(rng.IntN(50) == 0))
			case 1, 2, 3:
				s.Delete([]byte(k))
				delete(model, k)
			case 4:
				from, to := key(), key()
				var want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if k >= from && k < to {
						want = append(want, k+"="+model[k])
					}
				}
				require.Equal(t, want, collect(s, []byte(from), []byte(to)))
			case 5, 6, 7:
				v, ok := model[k]
				got := s.Get([]byte(k))
				require.Equal(t, ok, got != nil)
				require.Equal(t, v, string(got))
			default:
				v := fmt.Sprint(rng.Uint64())[:rng.IntN(8)]
				s.Set([]byte(k), []byte(v))
				model[k] = v
			}
		}
		require.Len(t, collect(s, nil, nil), len(model))
	})
}

func TestAnEmptyValueIsThere(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.Set([]byte("k"), nil)
		for range 2 {
			require.NotNil(t, s.Get([]byte("k")))
			require.Equal(t, []string{"k="}, collect(s, nil, nil))
			require.NoError(t, s.Commit(false))
		}
		require.Nil(t, s.Get([]byte("other")))
	})
}

func TestSetCopies(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		k, v := []byte("key"), []byte("value")
		s.Set(k, v)
		k[0], v[0] = 'X', 'X'
		require.NoError(t, s.Commit(false))
		require.Equal(t, []string{"key=value"}, collect(s, nil, nil))
	})
}

// A loop that writes sees its writes ahead, and no key twice.
func TestScanWhileWriting(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, k := range []string{"a", "c", "e", "g"} {
			s.Set([]byte(k), []byte("old"))
		}
		require.NoError(t, s.Commit(false))
		s.Set([]byte("b"), []byte("pending"))
		var seen []string
		for k, v := range s.Scan([]byte("a"), []byte("z")) {
			seen = append(seen, string(k)+"="+string(v))
			switch string(k) {
			case "b":
				s.Delete([]byte("b"))
				s.Set([]byte("a"), []byte("behind"))
				s.Set([]byte("d"), []byte("new"))
			case "c":
				s.Set([]byte("c"), []byte("again"))
				s.Delete([]byte("e"))
				s.Set([]byte("g"), []byte("changed"))
				s.Set([]byte("h"), []byte("new"))
			}
		}
		require.Equal(t, []string{"a=old", "b=pending", "c=old", "d=new", "g=changed", "h=new"}, seen)
		require.Equal(t, []string{"a=behind", "c=again", "d=new", "g=changed", "h=new"}, collect(s, nil, nil))
	})
}

func TestScanStops(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for i := range 300 {
			s.Set(fmt.Appendf(nil, "%03d", i), nil)
			if i == 150 {
				require.NoError(t, s.Commit(false))
			}
		}
		for _, limit := range []int{1, 100, 200} {
			n := 0
			for range s.Scan(nil, nil) {
				if n++; n == limit {
					break
				}
			}
			require.Equal(t, limit, n)
		}
	})
}

func TestDeleteAllByScan(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for i := range 1000 {
			s.Set(fmt.Appendf(nil, "%d", i), []byte("v"))
			if i == 500 {
				require.NoError(t, s.Commit(false))
			}
		}
		for k := range s.Scan(nil, nil) {
			s.Delete(k)
		}
		require.Empty(t, collect(s, nil, nil))
		require.NoError(t, s.Commit(false))
		require.Empty(t, collect(s, nil, nil))
	})
}

func TestAClosedStoreFails(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.Set([]byte("k"), []byte("v"))
		require.NoError(t, s.Commit(false))
		require.NoError(t, s.Err())
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.Nil(t, s.Get([]byte("k")))
		require.Empty(t, collect(s, nil, nil))
		require.ErrorIs(t, s.Commit(true), ErrClosed)
		require.ErrorIs(t, s.Err(), ErrClosed)
	})
}

func TestTableStaysSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var tb table
	for range 20000 {
		k := fmt.Appendf(nil, "%d", rng.IntN(3000))
		if rng.IntN(3) == 0 {
			tb.delete(k)
		} else {
			tb.set(entry{k, k})
		}
	}
	var last []byte
	for _, run := range tb.runs {
		require.NotEmpty(t, run)
		require.LessOrEqual(t, len(run), runMax)
		for _, e := range run {
			require.Negative(t, bytes.Compare(last, e.key))
			last = e.key
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := cache{limit: 1000}
	for i := range 1000 {
		c.put(fmt.Sprint(i), []byte("0123456789"))
	}
	require.Less(t, (len(c.young)+len(c.old))*(10+entryOverhead), 2*(1000+100))
	_, ok := c.get([]byte("999"))
	require.True(t, ok)
	_, ok = c.get([]byte("1"))
	require.False(t, ok)
}

// TestViewHasAllWrites: a view commits first, so that it has the writes before it, and none after it.
func TestViewHasAllWrites(t *testing.T) {
	disk, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	for _, s := range []*Store{NewMemory(), disk} {
		s.Set([]byte("a"), []byte("1"))
		require.Positive(t, s.Pending())
		v, err := s.View()
		require.NoError(t, err)
		require.Zero(t, s.Pending())
		s.Set([]byte("b"), nil)
		s.Delete([]byte("a"))
		require.Positive(t, s.Pending())
		all := map[string]string{}
		for key, value := range v.Scan(nil, nil) {
			all[string(key)] = string(value)
		}
		require.Equal(t, map[string]string{"a": "1"}, all)
		v.Close()
		require.NoError(t, s.Close())
	}
}
