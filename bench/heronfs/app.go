package heronfs

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// request is a command in the order. Without parties it writes all pages.
type request struct {
	parties []uint16
	command meta.Command
}

func (q *request) encode() []byte {
	b := varint.AppendUint(nil, uint64(len(q.parties)))
	for _, p := range q.parties {
		b = varint.AppendUint(b, p)
	}
	return q.command.Append(b)
}

func decodeRequest(b []byte) (q request) {
	r := varint.NewReader(b)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		q.parties = append(q.parties, r.Uint16())
	}
	if len(q.parties) == 0 {
		return q
	}
	var err error
	q.command, err = meta.DecodeCommand(b[len(b)-r.Len():])
	invariant.Check(err == nil, "a command that a Node has ordered: %v", err)
	return q
}

// app is the file system as an application of Heron, at one process. It is a function of the requests of its
// group: no state is taken over from another process.
type app struct {
	partition uint16
	owner     posix.Cred
	pages     *pages
	machine   *meta.Machine
	executed  uint64
}

func newApp(partition uint16, owner posix.Cred, keys *kv.Store) (*app, error) {
	a := &app{partition: partition, owner: owner, pages: newPages(keys)}
	var err error
	a.machine, err = meta.New(a.pages, meta.Config{Partition: partition, Owner: owner})
	return a, err
}

// Owner implements heron.Application.
func (a *app) Owner(id heron.ObjectID) multicast.GroupID { return multicast.GroupID(id & 0xffff) }

// Reads implements heron.Application.
func (a *app) Reads(group multicast.GroupID, payload []byte) (ids []heron.ObjectID) {
	q := decodeRequest(payload)
	for _, p := range q.parties {
		if multicast.GroupID(p) != group {
			ids = append(ids, readSet(&q.command, p)...)
		}
	}
	return ids
}

// readSet has the pages of a partition that its vote on a command depends on: those of the directories of its
// region with their names, and of the inodes that the command names, which may be in any partition.
func readSet(c *meta.Command, partition uint16) (ids []heron.ObjectID) {
	add := func(key []byte) {
		page, _ := pageOf(key)
		if id := objectOf(partition, page); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	directory := func(dir posix.Ino, name string) {
		if dir.Partition() == partition {
			add(inodeKey(dir))
			add(dirKey(dir, name))
		}
	}
	if c.Op == meta.OpLink {
		add(inodeKey(c.Ino))
	} else {
		directory(c.Ino, c.Name)
	}
	if c.NewParent != 0 {
		directory(c.NewParent, c.NewName)
	}
	for _, ino := range []posix.Ino{c.Child, c.NewChild} {
		if ino != 0 {
			add(inodeKey(ino))
		}
	}
	return ids
}

// Execute implements heron.Application.
func (a *app) Execute(_ multicast.GroupID, payload []byte, get func(heron.ObjectID) []byte) ([]heron.Write, []byte) {
	q := decodeRequest(payload)
	var result meta.Result
	switch len(q.parties) {
	case 0:
	case 1:
		a.executed++
		result = a.machine.Apply(&q.command, a.executed)
	default:
		a.executed++
		votes := [][]byte{a.machine.Prepare(a.executed, &q.command, q.parties).Encoded}
		for _, p := range q.parties {
			if p != a.partition {
				votes = append(votes, a.vote(p, &q, get))
			}
		}
		result = a.machine.Decide(a.executed, votes, a.executed)
	}
	return a.pages.take(a.partition), result.Append(nil)
}

// vote gives the vote of another partition, by its pages.
func (a *app) vote(partition uint16, q *request, get func(heron.ObjectID) []byte) []byte {
	keys := kv.NewMemory()
	m, err := meta.New(keys, meta.Config{Partition: partition, Owner: a.owner})
	invariant.Check(err == nil, "an empty store of partition %d: %v", partition, err)
	for _, id := range readSet(&q.command, partition) {
		all, err := decodePage(get(id))
		invariant.Check(err == nil, "page %d of partition %d: %v", id>>16, partition, err)
		for _, x := range all {
			keys.Set(x.key, x.value)
		}
	}
	return m.Prepare(1, &q.command, q.parties).Encoded
}
