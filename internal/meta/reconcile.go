package meta

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// # Reconciliation
//
// A partition that has lost the majority of its replicas goes on with the state of a surviving replica, which
// may lack the last entries of the order. Call such a partition short. Other partitions may have executed
// their parts of commands, or posts, of which the short partition lacks the other part. Reconcile makes one
// sound tree of the states of all partitions, and reports each name and each inode that it changes.
//
// Each state is the result of entries 1 to n of its own order, so that Check finds nothing in it. Only facts
// about several partitions can contradict each other. Primary facts are inodes with their contents, and
// names. All other keys are derived from these, and are made anew: links, forwardings, orphans, pools of
// numbers, reservations, the table of rules, the records of blocks and the counters. No session exists any
// more.
//
//	J1  An inode is in one partition. Of several copies, the one in a partition that is not short is the
//	    newest: only an executed move makes a second copy, and the short partition lacks the departure.
//	J2  A name names an inode that exists and has the type of the name. Other names are removed: the inode
//	    was removed or made by an entry that one of the partitions has lost.
//	J3  A directory has one name, and the way up from it leads to a root. The inode of a directory knows its
//	    parent. The inode is right unless its partition is short; then a name in a partition that is not short
//	    is newer than the names in short ones.
//	J4  A file has as many links as names. If its inode is in a partition that is not short and has fewer
//	    links than names, then some names in short partitions are out of date. If the difference is at least
//	    the number of these names, all of them are removed. If it is smaller, it is not known which ones are
//	    out of date, and all stay. All stay, too, if no name is in a short partition: then a command with an
//	    unknown outcome was aborted at the partition of one of the names.
//	J5  An inode without a name and without links is removed. One that has links has lost its name, and gets
//	    one in the directory lost+found in the root of its partition, or in / if that root has no name.
//	J6  A block is held by one inode.
//
// Why the result is sound: J1 and J2 make each name name one inode, J3 excludes cycles and second parents, J4
// and J5 give each inode the links that its names demand, and the derived keys are functions of all that. The
// caller checks the result with Check and CheckAll.

// Reconcile changes the states of all partitions to those of one sound tree. stores[i] has partition i, and
// short[i] reports whether it may lack its last entries. No command of several partitions may be undecided.
// It returns the changes that users can see. The caller commits the stores.
func Reconcile(stores []Keys, short []bool, now posix.Time) (changes []string, err error) {
	r := &reconciler{short: short, now: now, inodes: map[posix.Ino]*standing{}, found: map[uint16]*standing{}}
	r.newest = make([]uint64, len(stores))
	for p, keys := range stores {
		if Undecided(keys) > 0 {
			return nil, fmt.Errorf("partition %d has undecided commands", p)
		}
		m, err := New(keys, Config{Partition: uint16(p)})
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		r.machines = append(r.machines, m)
	}
	r.endPosts()
	for _, step := range []func() error{r.readInodes, r.readNames} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.order = slices.Sorted(maps.Keys(r.inodes))
	r.chooseNames()
	r.breakCycles()
	r.sawRows()
	r.nameAll()
	r.writeInodes()
	r.writeHomes()
	r.writeRules()
	if err := r.writeBlocks(); err != nil {
		return nil, err
	}
	r.count()
	return r.report(), nil
}

// reconciler is the state of Reconcile.
type reconciler struct {
	machines []*Machine
	short    []bool
	now      posix.Time
	inodes   map[posix.Ino]*standing
	order    []posix.Ino          // the numbers of inodes, ascending
	found    map[uint16]*standing // lost+found of each partition that needs one
	newest   []uint64             // for each home, the highest counter of an inode that any state names
	changes  []change
}

// standing is an inode with its partition and all its names.
type standing struct {
	inode
	partition uint16
	names     []*naming
	entries   uint64 // number of names in it
	subdirs   uint64
	rooted    bool
}

// naming is a name in a directory of a partition.
type naming struct {
	entry
	dir       posix.Ino
	partition uint16
}

// change is a change that users can see. Its path is found at the end.
type change struct {
	dir    posix.Ino
	name   string
	effect string
}

func (r *reconciler) note(n *naming, what string, args ...any) {
	r.changes = append(r.changes, change{n.dir, n.name, fmt.Sprintf(what, args...)})
}

// report returns the texts of the changes, with their paths.
func (r *reconciler) report() []string {
	all := make([]string, len(r.changes))
	for i, c := range r.changes {
		all[i] = fmt.Sprintf("%s: %s", r.path(c.dir, c.name), c.effect)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// path returns the path of a name in a directory.
func (r *reconciler) path(dir posix.Ino, name string) string {
	path := "/" + name
	for range maxDepth {
		n := r.inodes[dir]
		if n == nil || len(n.names) == 0 {
			if dir != posix.Root {
				path = fmt.Sprintf("(directory %d)%s", dir, path)
			}
			return path
		}
		path, dir = "/"+n.names[0].name+path, n.names[0].dir
	}
	return path
}

// maxDepth bounds the names of a path in a report.
const maxDepth = 4096

// endPosts executes the undelivered posts that make inodes, and removes all other posts, which concern only
// derived keys.
func (r *reconciler) endPosts() {
	for p, m := range r.machines {
		for _, to := range m.Destinations() {
			if int(to) >= len(r.machines) {
				continue
			}
			there := r.machines[to]
			done := there.PostsExecuted(uint16(p))
			for _, post := range m.Outbox(to, math.MaxInt) {
				x, err := decodeExport(post.Command.Data)
				if post.Number <= done || post.Command.Op != OpMake || err != nil || x.inode.Ino != post.Command.Child ||
					len(x.entries)+len(x.extents) > 0 || there.keys.Get(inodeKey(x.inode.Ino)) != nil {
					continue
				}
				there.storeExported(x)
			}
		}
	}
	for p, m := range r.machines {
		for key := range m.keys.Scan([]byte{prefixPost}, []byte{prefixPost + 1}) {
			m.keys.Delete(key)
		}
		clear(m.posts)
		for q, other := range r.machines {
			if p == q {
				continue
			}
			here, there := m.peer(uint16(q)), other.peer(uint16(p))
			if here.posted == 0 && here.executed == 0 && there.posted == 0 && there.executed == 0 && m.keys.Get(peerKey(uint16(q))) == nil {
				continue
			}
			m.setPeer(uint16(q), &peer{posted: max(here.posted, there.executed), executed: max(here.executed, there.posted)})
		}
	}
}

// readInodes reads all inodes (J1).
func (r *reconciler) readInodes() error {
	for p, m := range r.machines {
		for key, value := range m.keys.Scan([]byte{prefixInode}, []byte{prefixInode + 1}) {
			n, err := decodeInode(inoOf(key), value)
			if err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
			r.noteUsed(n.Ino)
			now := &standing{inode: n, partition: uint16(p)}
			if other := r.inodes[n.Ino]; other != nil {
				if !r.isNewer(now, other) {
					now, other = other, now
				}
				r.remove(other)
			}
			r.inodes[n.Ino] = now
		}
	}
	return nil
}

// noteUsed records that a state names an inode, so that its number is not used again.
func (r *reconciler) noteUsed(ino posix.Ino) {
	if home := int(ino.Partition()); home < len(r.newest) {
		r.newest[home] = max(r.newest[home], ino.Counter())
	}
}

// isNewer reports whether a copy of an inode is newer than another one (J1).
func (r *reconciler) isNewer(a, b *standing) bool {
	if r.short[a.partition] != r.short[b.partition] {
		return r.short[b.partition]
	}
	return cmp.Or(cmp.Compare(a.Ctime, b.Ctime), -cmp.Compare(a.partition, b.partition)) > 0
}

// remove removes an inode, or a copy of one, with all that belongs to it.
func (r *reconciler) remove(n *standing) {
	m := r.machines[n.partition]
	for _, prefix := range []byte{prefixExtent, prefixXattr, prefixCookie, prefixDirent} {
		for key := range m.keys.Scan(numberKey(prefix, uint64(n.Ino)), after(prefix, n.Ino)) {
			m.keys.Delete(key)
		}
	}
	m.keys.Delete(ruleKey(n.Ino))
	m.keys.Delete(orphanKey(n.Ino))
	m.keys.Delete(inodeKey(n.Ino))
}
