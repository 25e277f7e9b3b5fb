package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// If an inode lives in another partition than its home, the home has a forwarding to it. The number of an
// inode names its home. So a client with only the number finds the inode with at most two requests.

// forwarding returns the partition of an inode of this home that lives elsewhere.
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

// forward records, at the home of an inode, the partition in which it lives from now on.
func (m *Machine) forward(ino posix.Ino, at uint16) {
	switch {
	case ino.Partition() != m.cfg.Partition:
	case at == m.cfg.Partition:
		m.keys.Delete(forwardingKey(ino))
	default:
		m.keys.Set(forwardingKey(ino), varint.AppendUint(nil, at))
	}
}

// likelyPartition returns the partition of an inode that is not here: the one in its forwarding, or its home.
func (m *Machine) likelyPartition(ino posix.Ino) uint16 {
	if at, away := m.forwarding(ino); away {
		return at
	}
	return ino.Partition()
}

// elsewhere returns the answer that directs a client to the partition of ino.
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
