package block

import "context"

// summedDisk is a Disk that does not compute a checksum again that its server has verified: on the way of a block from its client to r
// disks it is computed once by the client, and once by each server that it reaches.
type summedDisk interface {
	putSummed(ctx context.Context, q *request) error
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
