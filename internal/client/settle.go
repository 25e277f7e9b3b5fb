package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Updates of names go to the partition of the directory alone as long as nothing is known to speak against
// it. If something of them is elsewhere, or is just being changed by a command of several partitions, the
// answer is EREMOTE and nothing was changed. Then the client looks, and sends what it has found along with
// the command to all partitions concerned, which execute it if they find the same.

// plan is how an update is sent.
type plan struct {
	cmd  *meta.Command
	to   route.Target
	done *meta.Result // not nil: nothing is to be sent, this is the result
}

// settle runs an update until the partitions concerned take it, and returns the plan that they took. arrange
// makes a plan by what is known or, if look is set, by looking again.
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
		case err == posix.ESTALE && gone < route.MaxGone: // moved; if it is gone, looking says so
			gone++
		case err == posix.EREMOTE && !look:
			if a.Attr.Ino != 0 {
				n.router.Suggest(a.Attr.Ino, uint16(a.Number))
			}
		case err == posix.EREMOTE || err == posix.EHELD: // it is not so any more, or is being changed
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
