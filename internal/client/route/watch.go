package route

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
)

// Errors of Watch.
var (
	// ErrCannotWatch: the replica is of an older version.
	ErrCannotWatch = errors.New("the replica does not tell changes: it is of an older version")
	// ErrBusy: the replica has too many requests.
	ErrBusy = errors.New("the replica has too much to do")
)

// watchPatience is the time that an answer to Watch may take in addition to its Linger.
const watchPatience = 2 * time.Second

// Watched is the answer to Watch.
type Watched struct {
	ask.Changes
	Near bool // the replica is in the client's region
}

// Watch requests changes of the tree from the first replica in the order of the partition. If that fails, it
// does not ask another one; the next call does.
func (r *Router) Watch(ctx context.Context, id uint16, w *ask.Watching) (Watched, error) {
	p, err := r.partition(id)
	if err != nil {
		return Watched{}, err
	}
	if p.net.suspended.Load() {
		return Watched{}, errSuspended
	}
	q := ask.Request{Kind: ask.Watch, Command: w.Append(nil)}
	if s := p.session(); s != nil {
		q.Session = s.id
	}
	replicas := p.replicas.Load()
	i := replicas.order(watching)[0]
	reply, err := p.net.send(ctx, replicas.all[i].Process, &q, w.Linger+watchPatience)
	switch {
	case ctx.Err() != nil:
		return Watched{}, ctx.Err()
	case err != nil:
		replicas.failed(i, watching, err)
		return Watched{}, err
	case reply.Status == ask.Refused:
		return Watched{}, ErrCannotWatch
	case reply.Status != ask.Answered:
		replicas.failed(i, watching, nil)
		return Watched{}, ErrBusy
	}
	x, err := ask.DecodeChanges(reply.Result)
	if err == nil && !x.Lost && x.To < w.From { // the replica is behind the client
		replicas.failed(i, watching, nil)
	}
	return Watched{x, replicas.all[i].Region == replicas.from}, err
}

// Executed is called once after each update that one partition has executed alone. place is the place of the
// update in the order of the partition.
type Executed func(partition uint16, place ask.Seen, cmd *meta.Command, result *meta.Result)
