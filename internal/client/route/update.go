package route

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Update executes a command at most once (C2). It opens a session if there is none.
func (r *Router) Update(ctx context.Context, cmd *meta.Command, to Target) (Answer, error) {
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	if to.nearest {
		to.partition = r.nearest(to.partition, to.parties)
	}
	a, err := r.search(ctx, to, func(p *partition) (Answer, error) { return r.update(ctx, p, cmd, to) })
	return a, r.Outcome(err)
}

// Build makes the command of an update. at is the partition in which the client expects the inode of the
// command. session is the number of the only session under which the command is valid (Target.Under); 0: any
// session.
type Build func(at uint16) (cmd *meta.Command, session uint64, err error)

// UpdateBuilt is like Update, for a command that depends on the partition of its inode. It calls build for
// each attempt, and returns errors of build unchanged.
func (r *Router) UpdateBuilt(ctx context.Context, ino posix.Ino, build Build) (Answer, error) {
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	var failed error
	a, err := r.search(ctx, Inode(ino), func(p *partition) (Answer, error) {
		cmd, session, err := build(p.id)
		if err != nil {
			failed = err
			return Answer{Partition: p.id}, errNotBuilt
		}
		return r.update(ctx, p, cmd, Partition(p.id).Under(session))
	})
	if failed != nil {
		return a, failed
	}
	return a, r.Outcome(err)
}

// errNotBuilt ends the search of an update if the command cannot be built.
var errNotBuilt = errors.New("the command cannot be built")

// encoded is the command of an update, with the inodes that it names.
type encoded struct {
	command []byte
	named   []posix.Ino
}

// update executes cmd through p, wherever its inodes are.
func (r *Router) update(ctx context.Context, p *partition, cmd *meta.Command, to Target) (Answer, error) {
	encoded := encoded{cmd.Append(nil), cmd.Named()}
	for {
		s, err := p.open(ctx)
		if err != nil {
			return Answer{Partition: p.id}, err
		}
		if to.session != 0 && to.session != s.id {
			return Answer{Partition: p.id}, posix.EREMOTE
		}
		waiting, cancel := r.outcomeTime(ctx)
		reply, doubt, err := p.multicastNext(ctx, waiting, s, to.parties, &encoded)
		cancel()
		if err != nil {
			return Answer{Partition: p.id}, err
		}
		if reply.Status != ask.UnknownSession {
			r.wrote(p, to.parties, reply.Vector)
			a, err := p.answer(&reply, cmd.Op, encoded.named)
			if reply.Status == ask.Answered && r.cfg.Executed != nil && len(to.parties) == 0 && !doubt {
				r.cfg.Executed(p.id, a.Seen, cmd, &a.Result)
			}
			return a, err
		}
		// The session expired, and with it the record of its executed updates.
		p.lost(s)
		if doubt {
			p.net.notices.Rarely("doubt", "an update failed although it may have been executed: its session expired while no replica answered",
				"partition", p.id)
			return Answer{Partition: p.id}, posix.EIO
		}
	}
}

// patience returns the time after which a replica must abandon an update that waits for other partitions, so
// that its reply arrives before ctx ends. 0: ctx has no deadline.
func patience(ctx context.Context) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return 0
	}
	left := time.Until(deadline)
	return max(left-min(left/4, time.Second), time.Millisecond)
}

// windowBytes bounds the commands of a client that are under way in a partition, in bytes. With more, answers
// would take so long that the client would also ask other replicas, and the partition would order each
// command several times.
const windowBytes = 4 << 20

// multicastNext sends an update under the next number of s, as soon as the window has room. ctx ends the wait
// for that; waiting ends the wait for the outcome.
func (p *partition) multicastNext(ctx, waiting context.Context, s *session, parties []uint16, cmd *encoded) (ask.Reply, bool, error) {
	size := int64(min(len(cmd.command), windowBytes))
	if err := p.window.Acquire(ctx, size); err != nil {
		return ask.Reply{}, false, err
	}
	defer p.window.Release(size)
	seq, err := s.begin(ctx)
	if err != nil {
		return ask.Reply{}, false, err
	}
	return p.multicast(waiting, s, seq, parties, cmd)
}

// multicast sends an update with a number of s until it is answered. From here on only the deadline of the
// operation counts, and not the end of its context (C6), because an update that was sent once may be
// executed.
func (p *partition) multicast(ctx context.Context, s *session, seq uint64, parties []uint16, cmd *encoded) (ask.Reply, bool, error) {
	defer s.finish(seq)
	began := time.Now()
	reply, doubt, err := p.exchange(ctx, ordering, func() ask.Request {
		q := p.request(ask.Update)
		q.Session, q.Seq, q.Done, q.Patience = s.id, seq, s.finished(), patience(ctx)
		q.Dest, q.Command = parties, cmd.command
		q.Ticketed, q.Tickets = true, p.net.tickets.show(cmd.named)
		return q
	})
	switch {
	case err == nil:
		p.counts.update(len(parties)).Observe(time.Since(began))
		if len(parties) == 0 {
			p.measured.add(time.Since(began))
		}
	case errors.Is(err, context.Canceled):
		err = context.DeadlineExceeded // not EINTR: it may have been executed
	}
	return reply, doubt, err
}
