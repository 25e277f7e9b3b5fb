package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// An inode can be made in another partition than its directory without a vote and without an answer of the
// other partition (thesis section 3.4.1, uncoordinated). The partition of the directory has a pool of numbers
// that the other partition has reserved for it. It takes one of them, adds the name with it, and answers the
// client. A post makes the inode in the other partition.
//
//   - Each number is in one pool, or was taken out of it for one name. No other inode gets it, and no client
//     chooses it.
//   - A client learns the number only with the name. Until the post arrives, the number is reserved
//     (Reserved): queries and updates of it get EHELD and wait. So no client can see that the inode is made
//     later than its name.
//   - The state of a number changes from reserved to made, and from made to removed, and never back. OpMake
//     of a number that is not reserved has no effect.
//   - Posts also fill the pool: OpNumbers requests numbers and OpGranted grants them. With an empty pool the
//     update gets EHELD.

// A pool requests poolChunk more numbers when it has fewer than poolLow. So it suffices for poolLow new
// inodes during the round trip.
const (
	poolLow   = 512
	poolChunk = 1024
)

// makeAt names a new inode in its directory, which is in s, and posts its making to another partition.
func (m *Machine) makeAt(at uint16, c *Command, s *scene, n *inode) Result {
	p := m.peer(at)
	n.Ino = p.take()
	if n.Ino != 0 {
		m.enterNew(c, s, n, at)
		m.postBy(at, &p, &Command{Op: OpMake, Child: n.Ino, Data: m.export(n)})
	}
	m.fill(at, &p)
	m.setPeer(at, &p)
	if n.Ino == 0 {
		return failed(posix.EHELD)
	}
	return Result{Attr: n.Attr, Number: uint64(at), Dir: c.dirResult(s)}
}

// lacksNumbers reports whether c makes an inode in another partition and must wait, because the pool is empty
// and the request for more numbers is not answered yet.
func (m *Machine) lacksNumbers(c *Command) bool {
	if c.Op != OpMknod || m.chosen != 0 {
		return false
	}
	at := m.placeFor(c.Ino, c.Name, c.Mode.Type())
	if at == m.cfg.Partition {
		return false
	}
	p := m.peer(at)
	_, exists := m.entry(c.Ino, c.Name)
	return !exists && p.refilling && p.left() == 0
}

// fill requests numbers from another partition if the pool is low. The caller stores p.
func (m *Machine) fill(partition uint16, p *peer) {
	if p.refilling || p.left() >= poolLow {
		return
	}
	p.refilling = true
	m.postBy(partition, p, &Command{Op: OpNumbers, Length: poolChunk})
}

// fillFor requests numbers for the inodes that a rule will place in other partitions.
func (m *Machine) fillFor(r *Rule) {
	for _, partition := range r.Spread {
		if partition != m.cfg.Partition {
			p := m.peer(partition)
			m.fill(partition, &p)
			m.setPeer(partition, &p)
		}
	}
}

// grant executes OpNumbers: it reserves numbers for the partition that requests them.
func (m *Machine) grant(from uint16, c *Command) {
	count := min(c.Length, poolChunk)
	if count == 0 {
		return
	}
	first := m.reserveNumbers(count)
	m.post(from, &Command{Op: OpGranted, Child: first, Length: count})
}

// granted executes OpGranted: it adds numbers to the pool.
func (m *Machine) granted(from uint16, c *Command) {
	if c.Child.Partition() != from || c.Child.Counter() <= 1 || c.Length == 0 || c.Length > poolChunk {
		return // the post comes from another version
	}
	p := m.peer(from)
	p.refilling = false
	p.pool = append(p.pool, span{c.Child, c.Length})
	m.setPeer(from, &p)
}

// makeNamed executes OpMake: it makes an inode that has a name in another partition.
func (m *Machine) makeNamed(c *Command) {
	x, err := decodeExport(c.Data)
	if err != nil || x.inode.Ino != c.Child || len(x.entries)+len(x.extents) > 0 || !m.takeReserved(c.Child) {
		return
	}
	m.storeExported(x)
}

// Reserved reports whether ino is a number of this partition that another partition may have given to a name,
// and whose inode is not made yet.
func (m *Machine) Reserved(ino posix.Ino) bool {
	return ino.Partition() == m.cfg.Partition && m.reserved[ino.Counter()/perReservation]&(1<<(ino.Counter()%perReservation)) != 0
}

// Awaits reports whether a command concerns a reserved number. It gets EHELD until the inode is made.
func (m *Machine) Awaits(c *Command) bool {
	for _, inos := range [][]posix.Ino{{c.Ino}, c.names(), c.Chain, c.Back} {
		if slices.ContainsFunc(inos, m.Reserved) {
			return true
		}
	}
	return false
}
