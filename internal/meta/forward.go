package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// The home of an inode, which is in its number, remembers where it is when it lives elsewhere. So a client
// that has only the number finds it in two questions at most.

// forwarding gives the partition in which an inode of this home lives, if it does not live here.
func (m *Machine) forwarding(ino posix.Ino) (at uint16, away bool) {
	if ino.Partition() != m.cfg.Partition {
		return 0, false
	}
	b := m.keys.Get(forwardingKey(ino))
	if b == nil {
		return 0, false
	}
	at, err := decodeForwarding(b)
	invariant.Check(err == nil, "stored forwarding of %d: %v", ino, err)
	return at, true
}

func decodeForwarding(b []byte) (uint16, error) {
	r := varint.NewReader(b)
	at := r.Uint16()
	return at, r.Done()
}

// forward notes at the home of an inode where it lives from now on.
func (m *Machine) forward(ino posix.Ino, at uint16) {
	switch {
	case ino.Partition() != m.cfg.Partition:
	case at == m.cfg.Partition:
		m.keys.Delete(forwardingKey(ino))
	default:
		m.keys.Set(forwardingKey(ino), varint.AppendUint(nil, at))
	}
}

// believed gives the partition of an inode that is not here, as far as its number and the forwardings say.
func (m *Machine) believed(ino posix.Ino) uint16 {
	if at, away := m.forwarding(ino); away {
		return at
	}
	return ino.Partition()
}

// elsewhere is the answer that sends a client to where ino is.
func elsewhere(ino posix.Ino, at uint16) Result {
	return Result{Code: posix.EREMOTE, Attr: posix.Attr{Ino: ino}, Number: uint64(at)}
}

// located completes the answer to a command on one inode. If the inode is not here, and this partition is its
// home, the answer names the partition of the inode.
func (m *Machine) located(c *Command, r Result) Result {
	if r.Code != posix.EREMOTE || r.Attr.Ino != 0 {
		return r
	}
	if at, away := m.forwarding(c.Ino); away {
		return elsewhere(c.Ino, at)
	}
	return r
}
