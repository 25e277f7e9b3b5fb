package block

import (
	"context"
	"fmt"
)

// summedDisk is a Disk that does not compute a checksum again that its server has verified: on the way of a block from its client to r
// disks it is computed once by the client, and once by each server that it reaches.
type summedDisk interface {
	putSummed(ctx context.Context, q *request) error
}

// take is keep of a block that was sent here, unless this server leaves: who sends it knows older members. So nothing comes any
// more once it leaves and nothing is on its way to the disk (leaves).
func (n *Node) take(ctx context.Context, q *request) error {
	n.taking.Add(1) // before the members are looked at
	defer n.taking.Add(-1)
	if n.view.Load().isLeaving(n.config.Self) {
		return fmt.Errorf("put block %v: server %d is leaving: %w", q.id, n.config.Self, errStale)
	}
	return n.keep(ctx, q)
}

// keep puts a block that was verified on the own disk.
func (n *Node) keep(ctx context.Context, q *request) error {
	if d, ok := n.config.Disk.(summedDisk); ok {
		return d.putSummed(ctx, q)
	}
	return n.config.Disk.Put(ctx, q.id, q.data)
}

// putSummed implements summedDisk.
func (s *Segments) putSummed(ctx context.Context, q *request) error {
	return s.put(ctx, &update{id: q.id, data: q.data, crc: q.crc})
}
