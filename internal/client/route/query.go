package route

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Query executes a command that only reads at one replica.
func (r *Router) Query(ctx context.Context, cmd *meta.Command, to Target) (Answer, error) {
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	to.fresh = to.fresh || r.cfg.Linearizable
	command := cmd.Append(nil)
	a, err := r.search(ctx, to, func(p *partition) (Answer, error) { return p.query(ctx, cmd, command, to) })
	return a, r.Outcome(err)
}

func (p *partition) query(ctx context.Context, cmd *meta.Command, command []byte, to Target) (Answer, error) {
	class := reading
	if to.fresh {
		class = ordering // a quorum knows the newest state
	}
	awaits := cmd.Op == meta.OpGetLock && cmd.Flags&meta.AwaitLock != 0
	if awaits {
		class = watching
	}
	var session uint64
	if s := p.session(); s != nil && to.named {
		session = s.id
	}
	named := cmd.Named()
	began, before := time.Now(), p.net.clock.of(p.id)
	reply, _, err := p.exchange(ctx, class, func() ask.Request {
		q := p.request(ask.Query)
		q.Session, q.Fresh, q.Command = session, to.fresh, command
		q.Ticketed, q.Tickets = true, p.net.tickets.show(named)
		return q
	})
	if err != nil {
		return Answer{Partition: p.id}, err
	}
	if !awaits {
		p.counts.queries.Observe(time.Since(began))
	}
	a, err := p.answer(&reply, cmd.Op, named)
	a.Session, a.AsOf = session, before.Merge(a.Seen)
	return a, err
}

// answer decodes the reply to a command.
func (p *partition) answer(reply *ask.Reply, op meta.Op, named []posix.Ino) (Answer, error) {
	a := Answer{Partition: p.id, Seen: reply.Vector.Of(p.id)}
	if reply.Status != ask.Answered {
		a.Refused = reply.Status == ask.Refused
		return a, p.refused(reply)
	}
	result, err := meta.DecodeResult(reply.Result)
	if err != nil {
		p.net.notices.Rarely("result", "a replica's answer does not decode: client and servers are probably of different versions",
			"partition", p.id, "error", err)
		return a, posix.EIO
	}
	p.net.tickets.learnFrom(reply, op, named, &result)
	if result.Code == posix.ESTALE && len(named) == 1 {
		p.net.tickets.forget(named[0]) // the inode does not exist, or its ticket is too old
	}
	a.Result = result
	return a, result.Code.Err()
}
