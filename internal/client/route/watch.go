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

// watchPatience is the time that a request to watch may take beyond its Linger.
const watchPatience = 2 * time.Second

// Watch requests changes of the tree from the first replica in the order of the partition. It does not turn
// to other replicas: the next call does.
func (r *Router) Watch(ctx context.Context, id uint16, w *ask.Watching) (ask.Changes, error) {
	p, err := r.partition(id)
	if err != nil {
		return ask.Changes{}, err
	}
	if p.net.suspended.Load() {
		return ask.Changes{}, errSuspended
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
		return ask.Changes{}, ctx.Err()
	case err != nil:
		replicas.failed(i, watching, err)
		return ask.Changes{}, err
	case reply.Status == ask.Refused:
		return ask.Changes{}, ErrCannotWatch
	case reply.Status != ask.Answered:
		replicas.failed(i, watching, nil)
		return ask.Changes{}, ErrBusy
	}
	x, err := ask.DecodeChanges(reply.Result)
	if err == nil && !x.Lost && x.To < w.From { // it is behind
		replicas.failed(i, watching, nil)
	}
	return x, err
}

// Executed is called after an update that one partition has executed alone, once, with the place of the
// update in the order of the partition.
type Executed func(partition uint16, place ask.Seen, cmd *meta.Command, result *meta.Result)
