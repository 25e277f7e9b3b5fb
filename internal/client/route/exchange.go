package route

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/notice"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// exchanger sends requests to replicas, and merges the vectors of their replies into the clock.
type exchanger struct {
	caller    Caller
	hangs     func(server string) // records that a server answers no requests
	notices   *notice.Log
	clock     vectorClock
	tickets   *tickets
	suspended atomic.Bool // nothing may be sent
}

// errSuspended means that another router continues the sessions of this one.
var errSuspended = errors.New("the client is suspended")

// errReplaced means that a replica is not a member of its partition any more. The router tries it last until
// it gets a description of the cluster with another replica.
var errReplaced = errors.New("the replica was replaced by another one")

// send sends a request to one replica, and waits for the reply at most for patience. A replica of a version
// before tickets gets the request without tickets. Renewals are always sent with tickets first, because an
// upgraded replica would remove inodes without tickets from the held ones.
func (x *exchanger) send(ctx context.Context, to multicast.ProcessID, request *ask.Request, patience time.Duration) (ask.Reply, error) {
	plain := request.Ticketed && request.Kind != ask.RenewSession && x.tickets.isPlain(to)
	reply, err := x.sendAs(ctx, to, request, plain, patience)
	if err != nil || reply.Status != ask.Refused || !request.Ticketed || !plain && string(reply.Result) != ask.Malformed {
		return reply, err
	}
	x.tickets.setPlain(to, !plain)
	return x.sendAs(ctx, to, request, !plain, patience)
}

// sendAs sends a request with its tickets or, if plain is set, without.
func (x *exchanger) sendAs(ctx context.Context, to multicast.ProcessID, request *ask.Request, plain bool, patience time.Duration) (ask.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if plain {
		bare := *request
		bare.Ticketed, bare.Tickets = false, nil
		request = &bare
	}
	answer, err := x.caller.Call(ctx, to, request.Append(nil))
	if err != nil {
		return ask.Reply{}, err
	}
	reply, err := ask.DecodeReply(answer)
	if err != nil {
		return ask.Reply{}, err
	}
	x.clock.add(ask.Proof{Vector: reply.Vector, Tag: reply.Tag})
	if reply.Status == ask.Replaced {
		return ask.Reply{}, errReplaced
	}
	return reply, nil
}

// Waits for a reply before the router also asks the next replica. The wait doubles with each round over all
// replicas, so that retries do not overload a slow cluster.
const (
	firstPatience = 2 * time.Second
	maxPatience   = 16 * time.Second
)

// If a replica in the client's region has not answered for quietTime, the router asks it for its status,
// which a replica returns at once, even while updates wait. Without an answer within statusTime the server
// hangs, and the router asks the next replica at once. This is done in the first round only: in later rounds
// all replicas are slow, and more requests would make them slower.
const (
	quietTime  = 200 * time.Millisecond
	statusTime = 250 * time.Millisecond
)

// errHangs means that a server accepts requests and answers none.
var errHangs = errors.New("its server does not answer a query of the status either")

// sendNear is like send, for a replica in the client's region. It returns errHangs if the server of the
// replica hangs.
func (x *exchanger) sendNear(ctx context.Context, to multicast.ProcessID, request *ask.Request, patience time.Duration) (ask.Reply, error) {
	ctx, abandon := context.WithCancelCause(ctx)
	asked := make(chan struct{})
	query := time.AfterFunc(quietTime, func() {
		defer close(asked)
		_, err := x.send(ctx, to, &ask.Request{Kind: ask.AskStatus}, statusTime)
		if errors.Is(err, context.DeadlineExceeded) {
			abandon(errHangs)
		}
	})
	reply, err := x.send(ctx, to, request, patience)
	if err != nil && context.Cause(ctx) == errHangs {
		err = errHangs
	}
	abandon(nil)
	if !query.Stop() {
		<-asked
	}
	return reply, err
}

// Pauses between rounds over all replicas. The actual pause is random, between half of the value and the
// value.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// exchange asks the replicas of p, the nearest first, until one answers or ctx ends. It calls build for each
// request. doubt reports that a replica which did not answer may have executed the request.
func (p *partition) exchange(ctx context.Context, c class, build func() ask.Request) (reply ask.Reply, doubt bool, err error) {
	patience, wait := firstPatience, firstPause
	for {
		replicas := p.replicas.Load()
		for _, i := range replicas.order(c) {
			if p.net.suspended.Load() {
				return ask.Reply{}, doubt, errSuspended
			}
			request, send := build(), p.net.send
			if patience == firstPatience && replicas.all[i].Region == replicas.from && c != watching {
				send = p.net.sendNear
			}
			reply, err := send(ctx, replicas.all[i].Process, &request, patience)
			switch {
			case err == nil && reply.Status == ask.Unseen:
				p.unseen()
				continue
			case err == nil && reply.Status == ask.Unproven:
				p.unproven(replicas.all[i].Server, request.Proofs)
				continue
			case err == nil && reply.Status != ask.Overloaded:
				replicas.answered(i, c)
				return reply, doubt, nil
			case ctx.Err() != nil:
				return ask.Reply{}, true, ctx.Err()
			}
			replicas.failed(i, c, err)
			if err == errHangs {
				p.net.hangs(replicas.all[i].Server)
			}
			if err != nil {
				doubt = true
				p.net.notices.Debug("a replica does not answer: asking the next",
					"partition", p.id, "server", replicas.all[i].Server, "error", err)
			}
		}
		p.net.notices.Rarely(fmt.Sprintf("partition %d", p.id),
			"no replica of a partition answers: trying again; check that its servers run and can be reached, and whether they are overloaded",
			"partition", p.id, "path", p.path)
		if err := pause.Between(ctx, wait/2, wait); err != nil {
			return ask.Reply{}, doubt, err
		}
		patience, wait = min(2*patience, maxPatience), min(2*wait, maxPause)
	}
}

// unseen records that the partition has not reached the claimed state, so the claim is false.
func (p *partition) unseen() {
	p.net.clock.deny(p.id)
	p.net.notices.Rarely(fmt.Sprintf("unseen %d", p.id),
		"a partition does not have all that this mount has seen: it was restored to an earlier state, or another client has claimed more; reads may show an older state once",
		"partition", p.id, "path", p.path)
}

// unproven records that a server has not accepted the proofs of this client. From then on, each partition
// must confirm its own entry of them.
func (p *partition) unproven(server string, shown ask.Proofs) {
	p.net.clock.doubt(shown)
	p.net.notices.Rarely("unproven",
		"a server does not accept what other servers have confirmed to this mount: their vector keys differ; give all servers the key files of one 'globalfs certs'",
		"server", server, "partition", p.id)
}
