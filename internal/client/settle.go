package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// The client sends an update of a name to the partition of the directory alone, unless it knows that other
// partitions are concerned. If an inode of the update is elsewhere, or a command of several partitions is
// changing it, the answer is EREMOTE and the partition changed nothing. Then the client looks, and sends the
// inodes that it has found with the command to all partitions concerned. They execute the command if they
// find the same inodes.

// plan is an update with its target.
type plan struct {
	cmd  *meta.Command
	to   route.Target
	done *meta.Result // not nil: nothing is to be sent, this is the result
}

// settle runs an update until the partitions concerned execute it, and returns the executed plan. arrange
// makes a plan from memory or, if look is set, after a new lookup.
func (n *Names) settle(ctx context.Context, arrange func(ctx context.Context, look bool) (plan, error)) (meta.Result, plan, error) {
	ctx, cancel := n.router.Operation(ctx)
	defer cancel()
	var pace route.Backoff
	gone := 0
	for look := false; ; look = true {
		p, err := arrange(ctx, look)
		if err != nil {
			return meta.Result{}, p, n.outcome(err)
		}
		if p.done != nil {
			return *p.done, p, nil
		}
		a, err := n.router.Update(ctx, p.cmd, p.to)
		switch {
		case err == posix.ESTALE && gone < route.MaxGone: // moved; if it is gone, the lookup returns that
			gone++
		case err == posix.EREMOTE && !look:
			if a.Attr.Ino != 0 {
				n.router.Suggest(a.Attr.Ino, uint16(a.Number))
			}
		case err == posix.EREMOTE || err == posix.EHELD: // the lookup is outdated, or the inode is being changed
			if err := pace.Rest(ctx); err != nil {
				return meta.Result{}, p, n.outcome(err)
			}
		default:
			if err == nil && p.to.Several() && a.Attr.Ino != 0 {
				n.router.Learn(a.Attr.Ino, uint16(a.Number))
			}
			return a.Result, p, err
		}
	}
}
