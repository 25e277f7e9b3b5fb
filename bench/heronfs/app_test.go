package heronfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/heron"
)

// twin is partitions 1 and 2 twice: as applications of Heron, and as machines that exchange their votes.
type twin struct {
	t        *testing.T
	apps     map[uint16]*app
	objects  map[heron.ObjectID][]byte
	machines map[uint16]*meta.Machine
	stores   map[uint16]*kv.Store
	count    map[uint16]uint64
}

func newTwin(t *testing.T) *twin {
	w := &twin{
		t: t, apps: map[uint16]*app{}, objects: map[heron.ObjectID][]byte{}, machines: map[uint16]*meta.Machine{}, stores: map[uint16]*kv.Store{},
		count: map[uint16]uint64{},
	}
	for p := uint16(1); p <= 2; p++ {
		var err error
		w.apps[p], err = newApp(p, posix.Cred{}, kv.NewMemory())
		require.NoError(t, err)
		w.stores[p] = kv.NewMemory()
		w.machines[p], err = meta.New(w.stores[p], meta.Config{Partition: p})
		require.NoError(t, err)
		w.execute(p, &request{}, nil)
	}
	return w
}

// execute has an application execute a request. It reads remote objects from before, or of the read set only.
func (w *twin) execute(p uint16, q *request, before map[heron.ObjectID][]byte) []byte {
	allowed := map[heron.ObjectID]bool{}
	a := w.apps[p]
	for _, id := range a.Reads(a.Owner(objectOf(p, 0)), q.encode()) {
		require.NotEqual(w.t, a.Owner(objectOf(p, 0)), a.Owner(id))
		allowed[id] = true
	}
	writes, response := a.Execute(a.Owner(objectOf(p, 0)), q.encode(), func(id heron.ObjectID) []byte {
		require.True(w.t, allowed[id], "object %d is not in the read set", id)
		return before[id]
	})
	for _, x := range writes {
		require.Equal(w.t, p, uint16(a.Owner(x.ID)))
		require.LessOrEqual(w.t, len(x.Value), pageSize)
		w.objects[x.ID] = x.Value
	}
	return response
}

// do executes a request in both ways, and requires the same results.
func (w *twin) do(q *request) posix.Code {
	w.t.Helper()
	var expected []meta.Result
	if len(q.parties) == 1 {
		p := q.parties[0]
		w.count[p]++
		c := q.command
		expected = append(expected, w.machines[p].Apply(&c, w.count[p]))
	} else {
		var votes [][]byte
		for _, p := range q.parties {
			w.count[p]++
			votes = append(votes, w.machines[p].Prepare(w.count[p], &q.command, q.parties).Encoded)
		}
		for _, p := range q.parties {
			expected = append(expected, w.machines[p].Decide(w.count[p], votes, w.count[p]))
		}
	}
	before := map[heron.ObjectID][]byte{}
	for id, value := range w.objects {
		before[id] = value
	}
	for i, p := range q.parties {
		require.Equal(w.t, expected[i].Append(nil), w.execute(p, q, before), "partition %d, %+v", p, q.command)
	}
	return expected[0].Code
}

// equal requires equal stores.
func (w *twin) equal() {
	for p, store := range w.stores {
		var keys int
		for key, value := range store.Scan(nil, nil) {
			keys++
			require.True(w.t, bytes.Equal(value, w.apps[p].pages.Get(key)), "partition %d, key %x", p, key)
		}
		for range w.apps[p].pages.Scan(nil, nil) {
			keys--
		}
		require.Zero(w.t, keys)
	}
}

// Commands over two partitions, including those that fail, have the same results and effects as a commit with
// votes.
func TestEqualsTheCommit(t *testing.T) {
	codes := map[posix.Code]int{}
	for seed := range uint64(20) {
		w := newTwin(t)
		rng := rand.New(rand.NewPCG(seed, 7))
		root := func() posix.Ino { return posix.MakeIno(uint16(1+rng.IntN(2)), 1) }
		name := func() string { return fmt.Sprint("name", rng.IntN(6)) }
		find := func(dir posix.Ino, name string) posix.Ino {
			r := w.machines[dir.Partition()].Query(&meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
			return r.Attr.Ino
		}
		for i := range 120 {
			c := meta.Command{Ino: root(), Name: name(), NewParent: root(), NewName: name(), Time: posix.Time(i)}
			q := &request{parties: []uint16{1, 2}}
			switch rng.IntN(4) {
			case 0:
				c = meta.Command{Op: meta.OpMknod, Ino: c.Ino, Name: c.Name, Mode: posix.TypeRegular | 0o644, Flags: meta.Exclusive, Time: c.Time}
				q.parties = []uint16{c.Ino.Partition()}
			case 1:
				c.Op, c.Name, c.Ino = meta.OpLink, "", find(c.Ino, c.Name)
				c.Child = c.Ino
			default:
				c.Op, c.Child, c.NewChild, c.Target = meta.OpRename, find(c.Ino, c.Name), find(c.NewParent, c.NewName), c.NewParent.Partition()
				if rng.IntN(5) == 0 {
					c.Child, c.NewChild = c.NewChild, c.Child // a wrong picture of the names
				}
			}
			if c.Op == meta.OpLink && c.Ino == 0 {
				continue
			}
			q.command = c
			codes[w.do(q)]++
		}
		w.equal()
	}
	for _, code := range []posix.Code{posix.OK, posix.EEXIST, posix.ENOENT, posix.EREMOTE} {
		require.Positive(t, codes[code], "%v: %v", code, codes)
	}
}
