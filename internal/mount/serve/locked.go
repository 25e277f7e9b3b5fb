package serve

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/internal/posix"
)

// maxAside bounds the notices that are set aside.
const maxAside = 1 << 12

// locked are the nodes that the kernel locks while it waits for requests. A notice of an entry takes the same
// lock: behind a slow request it would make all later ones of that directory wait, in a sleep that no signal
// ends, and would keep the mount alive if this process died. So notices are set aside until the requests are
// answered.
type locked struct {
	mu       sync.Mutex
	requests map[posix.Ino]int               // GUARDED_BY mu; that are not answered, by node
	aside    map[posix.Ino]map[string]func() // GUARDED_BY mu; notices, by directory and name
	count    int                             // GUARDED_BY mu; notices that are set aside
}

func newLocked() locked {
	return locked{requests: map[posix.Ino]int{}, aside: map[posix.Ino]map[string]func(){}}
}

// anyNode stands for a directory that a request removes, moves or replaces: the request names it, and does
// not give its number.
const anyNode posix.Ino = 0

// nodesLocked returns the nodes that the kernel locks until the request is answered: directories and, for the
// operations on attributes, any.
func (r *request) nodesLocked() []posix.Ino {
	switch r.op() {
	case opRename, opRename2:
		return []posix.Ino{anyNode, posix.Ino(r.node()), posix.Ino(uint64At(r.raw, inHeaderSize))}
	case opRmdir:
		return []posix.Ino{anyNode, posix.Ino(r.node())}
	case opLookup, opSetAttr, opSymlink, opMknod, opMkdir, opUnlink, opLink, opSetXattr, opRemoveXattr,
		opReadDir, opFsyncDir, opCreate, opReadDirPlus, opTmpfile:
		return []posix.Ino{posix.Ino(r.node())}
	}
	return nil
}

// begin notes a request that holds nodes.
func (l *locked) begin(nodes []posix.Ino) {
	if len(nodes) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range nodes {
		l.requests[node]++
	}
}

// end notes that the request is answered, and has the notices of nodes repeated that no request holds any
// more.
func (l *locked) end(nodes []posix.Ino) {
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
	l.mu.Unlock()
	for _, f := range again {
		f()
	}
}

// forget notes that a request will come again: notices wait for that.
func (l *locked) forget(nodes []posix.Ino) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(nodes)
}

// drop counts a request less, and returns the nodes that no request holds any more. The caller holds mu.
func (l *locked) drop(nodes []posix.Ino) (free []posix.Ino) {
	for _, node := range nodes {
		if l.requests[node]--; l.requests[node] <= 0 {
			delete(l.requests, node)
			free = append(free, node)
		}
	}
	return free
}

// setAside reports whether a request holds a directory, perhaps. Then again will be called, unless too many
// notices wait.
func (l *locked) setAside(dir posix.Ino, name string, again func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.requests[dir] > 0:
	case l.requests[anyNode] > 0:
		dir, name = anyNode, fmt.Sprintf("%d/%s", dir, name)
	default:
		return false
	}
	names := l.aside[dir]
	if names == nil {
		names = map[string]func(){}
		l.aside[dir] = names
	}
	if _, known := names[name]; !known && l.count < maxAside {
		names[name] = again
		l.count++
	}
	return true
}

// expireOnly, in a notice of an entry, keeps what uses the entry: the kernel only looks it up again (Linux
// 6.2; older ones drop the entry).
const expireOnly = 1

// ExpireEntry makes the kernel look up a name in a directory again before it uses the name. While a request
// in that directory is not answered, it does nothing: it has again called after the answer. again must not
// wait.
func (k *Kernel) ExpireEntry(dir posix.Ino, name string, again func()) {
	if k == nil || k.server.locked.setAside(dir, name, again) {
		return
	}
	body := binary.NativeEndian.AppendUint64(nil, k.node(uint64(dir)))
	body = binary.NativeEndian.AppendUint32(body, uint32(len(name)))
	body = binary.NativeEndian.AppendUint32(body, expireOnly)
	body = append(append(body, name...), 0)
	_ = k.server.conn.notify(noticeInvalidEntry, body) // a name that the kernel does not know need not be looked up
}

// node is the number of an inode in the kernel: request.show replaces that of the root.
func (k *Kernel) node(ino uint64) uint64 {
	if posix.Ino(ino) == k.server.root {
		return uint64(posix.Root)
	}
	return ino
}
