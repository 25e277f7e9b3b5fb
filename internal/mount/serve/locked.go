package serve

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/internal/posix"
)

// maxAside is the maximum number of notices that are set aside.
const maxAside = 1 << 12

// locked has the nodes for which notices must wait until requests are answered. There are two reasons:
//
//   - The kernel locks a node during some requests, and a notice of an entry takes the same lock. After a
//     slow request, the notice would make all later requests of that directory wait, in a sleep that no
//     signal ends. It would also keep the mount alive if this process died.
//   - An answer has the attributes of nodes. If a notice of the attributes of such a node arrives before the
//     answer, the kernel then caches the old attributes of the answer, and drops newer ones.
//
// So such notices are set aside, and sent after the answers.
type locked struct {
	mu       sync.Mutex
	requests map[hold]int               // GUARDED_BY mu; number of unanswered requests, by node
	aside    map[hold]map[string]func() // GUARDED_BY mu; notices that are set aside, by node and name
	count    int                        // GUARDED_BY mu; number of notices that are set aside
	missed   bool                       // GUARDED_BY mu; notices beyond maxAside were dropped
	overflow func()                     // called after the answer to a request if missed is set; nil: no function
}

// hold is a node that waits for an answer to a request.
type hold struct {
	node posix.Ino
	attr bool // the answer describes the node; otherwise the kernel locks it
}

func newLocked() locked {
	return locked{requests: map[hold]int{}, aside: map[hold]map[string]func(){}}
}

// anyNode stands for a directory that a request removes, moves or replaces. The request has the name of the
// directory and not its number.
const anyNode posix.Ino = 0

// nodesLocked returns the nodes that the kernel locks until the request is answered: directories and, for the
// operations on attributes, any.
func (r *request) nodesLocked() []hold {
	node := hold{node: posix.Ino(r.node())}
	switch r.op() {
	case opRename, opRename2:
		return []hold{{node: anyNode}, node, {node: posix.Ino(uint64At(r.raw, inHeaderSize))}}
	case opRmdir:
		return []hold{{node: anyNode}, node}
	case opLookup, opSetAttr, opSymlink, opMknod, opMkdir, opUnlink, opLink, opSetXattr, opRemoveXattr,
		opReadDir, opFsyncDir, opCreate, opReadDirPlus, opTmpfile:
		return []hold{node}
	}
	return nil
}

// begin records a request that holds nodes.
func (l *locked) begin(nodes ...hold) {
	if len(nodes) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range nodes {
		l.requests[node]++
	}
}

// end records that a request is answered, and repeats the notices of nodes that no request holds any more.
func (l *locked) end(nodes ...hold) {
	if len(nodes) == 0 {
		return
	}
	var again []func()
	l.mu.Lock()
	for _, node := range l.drop(nodes) {
		for _, f := range l.aside[node] {
			again = append(again, f)
		}
		l.count -= len(l.aside[node])
		delete(l.aside, node)
	}
	if l.missed && l.overflow != nil {
		again = append(again, l.overflow)
	}
	l.missed = false
	l.mu.Unlock()
	for _, f := range again {
		f()
	}
}

// forget removes a request that the kernel will repeat. Notices continue to wait for the repeated request.
func (l *locked) forget(nodes ...hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(nodes)
}

// drop removes a request, and returns the nodes that no request holds any more. The caller holds mu.
func (l *locked) drop(nodes []hold) (free []hold) {
	for _, node := range nodes {
		if l.requests[node]--; l.requests[node] <= 0 {
			delete(l.requests, node)
			free = append(free, node)
		}
	}
	return free
}

// setAside reports whether a request holds a node, perhaps. Then again will be called; overflow in its place
// if too many notices wait.
func (l *locked) setAside(node hold, name string, again func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.requests[node] > 0:
	case !node.attr && l.requests[hold{node: anyNode}] > 0:
		node, name = hold{node: anyNode}, fmt.Sprintf("%d/%s", node.node, name)
	default:
		return false
	}
	if l.count >= maxAside {
		l.missed = true
		return true
	}
	names := l.aside[node]
	if names == nil {
		names = map[string]func(){}
		l.aside[node] = names
	}
	if _, known := names[name]; !known {
		names[name] = again
		l.count++
	}
	return true
}

// expireOnly, in a notice of an entry, keeps what uses the entry: the kernel only looks it up again (Linux
// 6.2; older ones drop the entry).
const expireOnly = 1

// ExpireEntry makes the kernel look up a name in a directory again before it uses the name. While a request
// in that directory is not answered, it does nothing and returns false: it has again called after the answer.
// again must not wait.
func (k *Kernel) ExpireEntry(dir posix.Ino, name string, again func()) bool {
	if k == nil || k.server.locked.setAside(hold{node: dir}, name, again) {
		return false
	}
	body := binary.NativeEndian.AppendUint64(nil, k.node(uint64(dir)))
	body = binary.NativeEndian.AppendUint32(body, uint32(len(name)))
	body = binary.NativeEndian.AppendUint32(body, expireOnly)
	body = append(append(body, name...), 0)
	_ = k.server.conn.notify(noticeInvalidEntry, body) // a name that the kernel does not know need not be looked up
	return true
}

// ExpireAttributes is like ForgetAttributes, for a node that another mount has changed. While a request whose
// answer describes the node is not answered (Describe), it does nothing and returns false: it has again
// called after the answer. again must not wait.
func (k *Kernel) ExpireAttributes(node posix.Ino, again func()) bool {
	if k == nil || k.server.locked.setAside(hold{node, true}, "", again) {
		return false
	}
	k.ForgetAttributes(uint64(node))
	return true
}

// Describe announces that the answer to a request will have the attributes of a node. It returns the place of
// the request, and reports whether the request is known.
func (k *Kernel) Describe(unique uint64, node posix.Ino) (Order, bool) {
	if k == nil {
		return Order{}, false
	}
	return k.server.describe(unique, hold{node, true})
}

// OnOverflow sets the function that is called after an answer in the place of notices that were set aside and
// too many. It is called before the first request.
func (k *Kernel) OnOverflow(f func()) { k.server.locked.overflow = f }

// node returns the number of an inode in the kernel: request.show replaces that of the root.
func (k *Kernel) node(ino uint64) uint64 {
	if posix.Ino(ino) == k.server.root {
		return uint64(posix.Root)
	}
	return ino
}
