package micro

import (
	"cmp"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// place is the partition of an operation.
type place int

// The places.
const (
	local  place = iota // the partition of the client's region
	global              // the partition of all regions
)

// String implements fmt.Stringer.
func (p place) String() string { return [...]string{"local", "global"}[p] }

// The operations of T 3.6.1.
const (
	Read        = "read 1 KB"
	Write       = "write 1 KB"
	Create      = "create"
	CreateWrite = "create 1 KB"
)

func operations() []string { return []string{Read, Write, Create, CreateWrite} }

// The file of a client has fileSize bytes, of which an operation takes chunk (T 3.6.1).
const (
	chunk    = 1 << 10
	fileSize = 10 << 10
)

// worker is a client of a mount, with one operation under way at most.
type worker struct {
	*virtual.Client
	prices *Prices
	mount  *mount
	own    uint16  // partition of its region
	files  [2]file // by place
	names  int     // made
}

// file is the file of a worker in a partition.
type file struct {
	ino    posix.Ino
	reads  uint64
	blocks uint64 // written
}

func (x *worker) partition(p place) uint16 {
	if p == global {
		return virtual.Global
	}
	return x.own
}

// prepare opens sessions, and makes a file with content in each of the partitions.
func (x *worker) prepare(at []place, chunks int, then func()) {
	if len(at) == 0 {
		then()
		return
	}
	p := at[0]
	partition := x.partition(p)
	x.Begin(partition, func() {
		x.order(p, virtual.Mknod(partition, fmt.Sprintf("file-%d", x.Session)), func(r meta.Result) {
			x.files[p].ino = r.Attr.Ino
			next := func() { x.prepare(at[1:], chunks, then) }
			if chunks == 0 {
				next()
			} else {
				x.name(p, x.files[p].ino, chunks, next)
			}
		})
	})
}

// do executes an operation.
func (x *worker) do(operation string, p place, then func()) {
	x.mount.Spend(x.prices.Operation, func() {
		switch operation {
		case Read:
			x.read(p, then)
		case Write:
			x.put(p, func() { x.name(p, x.files[p].ino, 1, then) })
		case Create:
			x.create(p, func(posix.Ino) { then() })
		default:
			x.create(p, func(ino posix.Ino) { x.put(p, func() { x.name(p, ino, 1, then) }) })
		}
	})
}

func (x *worker) create(p place, then func(posix.Ino)) {
	x.names++
	x.order(p, virtual.Mknod(x.partition(p), fmt.Sprintf("%d-%d", x.Session, x.names)), func(r meta.Result) { then(r.Attr.Ino) })
}

// name orders the names of new blocks at the end of a file.
func (x *worker) name(p place, ino posix.Ino, blocks int, then func()) {
	f := &x.files[p]
	command := meta.Command{Op: meta.OpWrite, Ino: ino, Flags: meta.Append, Length: uint64(blocks) * chunk}
	for range blocks {
		id := posix.MakeBlockID(x.partition(p), x.Session, f.blocks)
		f.blocks++
		command.Blocks = append(command.Blocks, meta.Block{ID: id, Length: chunk})
	}
	x.order(p, command, func(meta.Result) { then() })
}

// order orders a command. A failure is an error of the network.
func (x *worker) order(p place, command meta.Command, then func(meta.Result)) {
	x.mount.Spend(x.prices.Call, func() {
		x.Update(time.Minute, command, []uint16{x.partition(p)}, func(a virtual.Answer) { x.take(&command, a, then) })
	})
}

func (x *worker) take(command *meta.Command, a virtual.Answer, then func(meta.Result)) {
	if x.Err != nil || a.Unknown || a.Code != posix.OK {
		x.Err = cmp.Or(x.Err, fmt.Errorf("operation %d in %s: no answer %v, %v", command.Op, x.Region, a.Unknown, a.Code))
		return
	}
	then(a.Result)
}

// read reads a chunk: the extents from a replica, and the block from a storage node, of the own region.
func (x *worker) read(p place, then func()) {
	f := &x.files[p]
	f.reads++
	query := meta.Command{Op: meta.OpExtents, Ino: f.ino, Offset: f.reads % (fileSize / chunk) * chunk, Length: chunk}
	x.mount.Spend(x.prices.Call, func() {
		x.Query(x.partition(p), query, func(a virtual.Answer) {
			x.take(&query, a, func(meta.Result) {
				x.mount.Spend(x.prices.Call, func() {
					x.visit(x.mount.region, func(s *virtual.Host, back func()) { s.Spend(x.prices.Get, back) }, then)
				})
			})
		})
	})
}

// put stores a block in each region of a partition, twice.
func (x *worker) put(p place, then func()) {
	first, last := x.mount.region, x.mount.region+1
	if p == global {
		first, last = 0, len(x.Regions)
	}
	missing := last - first
	for r := first; r < last; r++ {
		x.mount.Spend(x.prices.Call, func() {
			x.visit(r, func(s *virtual.Host, back func()) {
				s.Spend(x.prices.Put, func() {
					x.visitFrom(r, r, func(s *virtual.Host, back func()) { s.Spend(x.prices.Put, back) }, back)
				})
			}, func() {
				if missing--; missing == 0 {
					then()
				}
			})
		})
	}
}

// visit sends a request of the client to a server of region r. The server does work, and then runs when the
// answer has arrived.
func (x *worker) visit(r int, work func(s *virtual.Host, back func()), then func()) {
	x.visitFrom(x.mount.region, r, work, then)
}

func (x *worker) visitFrom(from, to int, work func(s *virtual.Host, back func()), then func()) {
	n := x.Network
	a, b := x.Regions[from], x.Regions[to]
	servers := x.Servers[to]
	s := servers[n.Random.IntN(len(servers))]
	n.Schedule(n.Now+n.Delay(a, b), func() {
		work(s, func() { n.Schedule(n.Now+n.Delay(b, a), then) })
	})
}
