package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// A new inode in another partition than its directory needs no vote, and no answer of the other partition
// (thesis section 3.4.1, uncoordinated). The partition of the directory has a pool of numbers that the other
// one has reserved for it. It gives the inode one of them, enters the name and answers. A post has the inode
// made.
//
//   - A number is in one pool, or was taken from it for one name. No other inode gets it, and no client
//     chooses it.
//   - The number becomes known with the name. Until the inode is made it is reserved (Reserved): queries and
//     updates of it give EHELD. So they follow the making, whenever the post arrives. The command takes
//     effect at its place in the order of the directory's partition.
//   - A number goes from reserved to made, and from made to gone, and never back. OpMake of a number that is
//     not reserved does nothing.
//   - Posts fill the pool, too: OpNumbers asks and OpGranted grants. With an empty pool the update gives
//     EHELD.

// A pool asks for poolChunk more numbers when fewer than poolLow are left. So it lasts for poolLow new inodes
// during the round trip.
const (
	poolLow   = 512
	poolChunk = 1024
)

// makeAt names a new inode in its directory and has it made in another partition. s has the directory.
func (m *Machine) makeAt(at uint16, c *Command, s *scene, n *inode) Result {
	p := m.peer(at)
	n.Ino = p.take()
	if n.Ino != 0 {
		m.named(c, s, n, at)
		m.postBy(at, &p, &Command{Op: OpMake, Child: n.Ino, Data: m.export(n)})
	}
	m.fill(at, &p)
	m.setPeer(at, &p)
	if n.Ino == 0 {
		return failed(posix.EHELD)
	}
	return Result{Attr: n.Attr, Number: uint64(at), Dir: c.tells(s)}
}

// lacksNumbers reports whether c is to make an inode in another partition, and waits for numbers that it has
// asked for.
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

// fill asks another partition for numbers if the pool is low. The caller stores p.
func (m *Machine) fill(partition uint16, p *peer) {
	if p.refilling || p.left() >= poolLow {
		return
	}
	p.refilling = true
	m.postBy(partition, p, &Command{Op: OpNumbers, Length: poolChunk})
}

// fillFor asks for the numbers that a rule needs.
func (m *Machine) fillFor(r *Rule) {
	for _, partition := range r.Spread {
		if partition != m.cfg.Partition {
			p := m.peer(partition)
			m.fill(partition, &p)
			m.setPeer(partition, &p)
		}
	}
}

// grant executes OpNumbers: it reserves numbers for the partition that asks.
func (m *Machine) grant(from uint16, c *Command) {
	count := min(c.Length, poolChunk)
	if count == 0 {
		return
	}
	first := m.reserveNumbers(count)
	m.post(from, &Command{Op: OpGranted, Child: first, Length: count})
}

// granted executes OpGranted: it puts the numbers into the pool.
func (m *Machine) granted(from uint16, c *Command) {
	if c.Child.Partition() != from || c.Child.Counter() <= 1 || c.Length == 0 || c.Length > poolChunk {
		return // of another version
	}
	p := m.peer(from)
	p.refilling = false
	p.pool = append(p.pool, span{c.Child, c.Length})
	m.setPeer(from, &p)
}

// makeNamed executes OpMake where the inode is to be.
func (m *Machine) makeNamed(c *Command) {
	x, err := decodeExport(c.Data)
	if err != nil || x.inode.Ino != c.Child || len(x.entries)+len(x.extents) > 0 || !m.takeReserved(c.Child) {
		return
	}
	m.settle(x)
}

// Reserved reports whether ino is a number of this partition that another one may have given a name, and that
// is not made yet.
func (m *Machine) Reserved(ino posix.Ino) bool {
	return ino.Partition() == m.cfg.Partition && m.reserved[ino.Counter()/perReservation]&(1<<(ino.Counter()%perReservation)) != 0
}

// Awaits reports whether a command is about a reserved number. It gives EHELD until the inode is made.
func (m *Machine) Awaits(c *Command) bool {
	for _, inos := range [][]posix.Ino{{c.Ino}, c.names(), c.Chain, c.Back} {
		if slices.ContainsFunc(inos, m.Reserved) {
			return true
		}
	}
	return false
}
