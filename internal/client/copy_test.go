package client_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/test/bubble"
)

// ownStore is a store in memory that calls before once, before it returns a block.
type ownStore struct {
	*blocktest.Memory
	before func()
}

// Get implements block.Store.
func (s *ownStore) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	if do := s.before; do != nil {
		s.before = nil
		do()
	}
	return s.Memory.Get(ctx, id, into)
}

// inOwnStores runs a test with a client that has a separate block store for each partition.
func inOwnStores(t *testing.T, test func(t *testing.T, c *client.Client, stores []*ownStore)) {
	bubble.Test(t, func(t *testing.T) {
		n := clienttest.New(t, spec, lease)
		var stores []*ownStore
		for range n.Plan.Partitions {
			stores = append(stores, &ownStore{Memory: blocktest.NewMemory(clienttest.StorageBytes)})
		}
		cfg := n.Config(west)
		cfg.Blocks = func(p uint16) block.Store { return stores[p] }
		c, err := client.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		test(t, c, stores)
	})
}

func ids(t *testing.T, s block.Store) (all []block.ID) {
	t.Helper()
	for id, err := range s.Range(t.Context(), block.ID{}, block.LastID) {
		require.NoError(t, err)
		all = append(all, id)
	}
	return all
}

func TestCopyBlocks(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, bytes.Repeat([]byte{1}, 3<<20))
		write(t, c, f, 1<<40, bytes.Repeat([]byte{2}, 3<<20)) // far behind a hole
		create(t, c, posix.Root, "other")
		require.Len(t, ids(t, stores[0]), 6)

		require.NoError(t, c.CopyBlocks(t.Context(), f, 2))
		require.Equal(t, ids(t, stores[0]), ids(t, stores[2]))
		require.Empty(t, ids(t, stores[1]))
		require.NoError(t, c.CopyBlocks(t.Context(), f, 2), "again")
		require.NoError(t, c.CopyBlocks(t.Context(), create(t, c, posix.Root, "empty").Ino, 2))
		require.Equal(t, posix.EINVAL, c.CopyBlocks(t.Context(), f, 99))

		stores[1].Fail(block.ErrNoSpace)
		require.Equal(t, posix.ENOSPC, c.CopyBlocks(t.Context(), f, 1))
	})
}

// A block that a file does not need any more, because it was overwritten while its blocks were copied, is not
// missed.
func TestCopyBlocksWhileOverwritten(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, bytes.Repeat([]byte{1}, 1<<20))
		old := ids(t, stores[0])
		stores[0].before = func() {
			write(t, c, f, 0, bytes.Repeat([]byte{2}, 1<<20))
			require.NoError(t, stores[0].Delete(t.Context(), old))
		}
		require.NoError(t, c.CopyBlocks(t.Context(), f, 1))
		require.Equal(t, ids(t, stores[0]), ids(t, stores[1]))
		require.NotEqual(t, old, ids(t, stores[1]))

		require.NoError(t, stores[0].Delete(t.Context(), ids(t, stores[0])))
		require.Equal(t, posix.EIO, c.CopyBlocks(t.Context(), f, 2), "it is lost")
	})
}

func TestHasBlock(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		write(t, c, create(t, c, posix.Root, "f").Ino, 0, make([]byte, 5000))
		id := ids(t, stores[0])[0]
		has := func(partition uint16) bool {
			ok, err := c.HasBlock(t.Context(), partition, id)
			require.NoError(t, err)
			return ok
		}
		require.True(t, has(0))
		require.True(t, has(2), "of a file that moved there: where it was written")
		stores[0].Spoil(id)
		require.False(t, has(0))
		require.NoError(t, stores[0].Delete(t.Context(), []block.ID{id}))
		require.False(t, has(0))
		_, err := c.HasBlock(t.Context(), 99, id)
		require.Equal(t, posix.EINVAL, err)
		stores[0].Fail(block.ErrUnavailable)
		_, err = c.HasBlock(t.Context(), 0, id)
		require.Equal(t, posix.EIO, err, "not known")
	})
}

// The pages of a scan contain all metadata of a replica.
func TestScan(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, _ []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		for i := range 20 {
			require.NoError(t, c.SetXattr(t.Context(), root, f, fmt.Sprintf("user.%d", i), make([]byte, posix.MaxXattr), 0))
		}
		var last []byte
		pages, inodes := 0, 0
		for ; ; pages++ {
			page, seen, err := c.Scan(t.Context(), 0, last)
			require.NoError(t, err)
			require.NotZero(t, seen.Count)
			if len(page) == 0 {
				break
			}
			for _, p := range page {
				require.Positive(t, bytes.Compare(p.Key, last))
				last = p.Key
				if p.Key[0] == 2 {
					inodes++
				}
			}
		}
		require.Greater(t, pages, 1)
		require.Equal(t, 2, inodes)
		_, _, err := c.Scan(t.Context(), 99, nil)
		require.Equal(t, posix.EINVAL, err)
	})
}

// The blocks of a file that is renamed into another partition come after it, without a reader.
func TestBlocksFollowARenamedFile(t *testing.T) {
	inOwnStores(t, func(t *testing.T, c *client.Client, stores []*ownStore) {
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, bytes.Repeat([]byte{1}, 3<<20))
		require.Empty(t, ids(t, stores[1]))
		there := posix.MakeIno(1, posix.Root.Counter())
		rename := func(from, to client.Name) {
			require.NoError(t, c.Rename(t.Context(), posix.Cred{}, from, to, 0))
			time.Sleep(time.Second) // virtual
		}
		rename(client.Name{Dir: posix.Root, Name: "f"}, client.Name{Dir: posix.Root, Name: "g"})
		require.Empty(t, ids(t, stores[1]), "it has not moved")
		rename(client.Name{Dir: posix.Root, Name: "g"}, client.Name{Dir: there, Name: "h"})
		require.Equal(t, ids(t, stores[0]), ids(t, stores[1]))

		stores[2].Fail(block.ErrNoSpace)
		rename(client.Name{Dir: there, Name: "h"}, client.Name{Dir: posix.MakeIno(2, posix.Root.Counter()), Name: "i"})
		got := make([]byte, 3<<20)
		n, err := c.Read(t.Context(), f, got, 0)
		require.NoError(t, err, "what cannot be brought is read from where it is")
		require.Equal(t, bytes.Repeat([]byte{1}, 3<<20), got[:n])
	})
}
