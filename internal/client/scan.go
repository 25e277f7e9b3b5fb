package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Scan gives a page of the stored metadata of a partition behind the key after, from the start if
// that is nil, and what the replica that gave it had executed; no pairs at the end. Pages are of one state only
// if all of them were given at the same seen.
func (c *Client) Scan(ctx context.Context, partition uint16, after []byte) (page []meta.Pair, seen ask.Seen, err error) {
	p, err := c.partition(partition)
	if err != nil {
		return nil, seen, posix.EINVAL
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	a, err := c.askIn(ctx, p, &meta.Command{Op: meta.OpScan, Data: after, Length: meta.MaxScan})
	if err == nil {
		page, err = meta.DecodeScan(a.Data)
	}
	return page, a.seen.Of(partition), c.outcome(err)
}
