package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// query answers a read-only command from one replica of the partition where cmd.Ino is.
func (c *Client) query(ctx context.Context, cmd *meta.Command) (meta.Result, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	r, err := c.ask(ctx, cmd)
	return r, c.outcome(err)
}

// ask is query inside an operation.
func (c *Client) ask(ctx context.Context, cmd *meta.Command) (meta.Result, error) {
	a, err := c.askAt(ctx, cmd)
	return a.Result, err
}

// answer is a result with where it is from.
type answer struct {
	meta.Result
	partition *partition
	seen      ask.Vector // of the replica when it answered
}

// askAt is ask for those who must know who answered.
func (c *Client) askAt(ctx context.Context, cmd *meta.Command) (answer, error) {
	return c.askAtAs(ctx, cmd, c.cfg.Linearizable)
}

// askAtAs is askAt for those who know whether the answer must be fresh.
func (c *Client) askAtAs(ctx context.Context, cmd *meta.Command, fresh bool) (answer, error) {
	s, err := c.search(cmd.Ino)
	if err != nil {
		return answer{}, err
	}
	for {
		a, err := c.askAs(ctx, s.p, cmd, fresh)
		if again, err := s.goesOn(ctx, &a.Result, err); !again {
			return a, err
		}
	}
}

// askIn asks one partition, wherever cmd.Ino is.
func (c *Client) askIn(ctx context.Context, p *partition, cmd *meta.Command) (answer, error) {
	return c.askAs(ctx, p, cmd, c.cfg.Linearizable)
}

// askAs is askIn for those who know whether the answer must be fresh.
func (c *Client) askAs(ctx context.Context, p *partition, cmd *meta.Command, fresh bool) (answer, error) {
	command := cmd.Append(nil)
	class := reading
	if fresh {
		class = ordering // a quorum says what is newest
	}
	began := time.Now()
	reply, _, err := c.exchange(ctx, p, class, func() ask.Request {
		return ask.Request{Kind: ask.Query, Vector: c.vector.snapshot(), Fresh: fresh, Command: command}
	})
	if err != nil {
		return answer{}, err
	}
	p.counts.queries.Observe(time.Since(began))
	r, err := c.result(p, &reply)
	return answer{Result: r, partition: p, seen: reply.Vector}, err
}

// update executes cmd in the partition where ino is.
func (c *Client) update(ctx context.Context, ino posix.Ino, cmd *meta.Command) (meta.Result, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	r, err := c.apply(ctx, ino, cmd)
	return r, c.outcome(err)
}

// apply is update inside an operation.
func (c *Client) apply(ctx context.Context, ino posix.Ino, cmd *meta.Command) (meta.Result, error) {
	return c.applyAt(ctx, ino, func(*partition) (*meta.Command, error) { return cmd, nil })
}

// applyAt is apply of a command that depends on the partition: build makes it for the one that is tried.
func (c *Client) applyAt(ctx context.Context, ino posix.Ino, build func(p *partition) (*meta.Command, error)) (meta.Result, error) {
	s, err := c.search(ino)
	if err != nil {
		return meta.Result{}, err
	}
	for {
		cmd, err := build(s.p)
		if err != nil {
			return meta.Result{}, err
		}
		r, err := c.applyIn(ctx, parties{ask: s.p}, cmd)
		if again, err := s.goesOn(ctx, &r, err); !again {
			return r, err
		}
	}
}

// parties is where an update goes.
type parties struct {
	ask  *partition // has the session, and answers
	dest []uint16   // all partitions, sorted; none: ask alone

	known *meta.Result // not nil: nothing is to be sent, this is the answer
}

// among gives the parties of an update that ask answers and that concerns partitions.
func among(ask *partition, partitions ...uint16) parties {
	slices.Sort(partitions)
	partitions = slices.Compact(partitions)
	if len(partitions) == 1 {
		return parties{ask: ask}
	}
	return parties{ask: ask, dest: partitions}
}

// applyIn executes cmd in the given partitions, wherever its inodes are.
func (c *Client) applyIn(ctx context.Context, to parties, cmd *meta.Command) (meta.Result, error) {
	p, command := to.ask, cmd.Append(nil)
	for {
		s, err := c.session(ctx, p)
		if err != nil {
			return meta.Result{}, err
		}
		if cmd.Op == meta.OpWrite && len(cmd.Blocks) > 0 && cmd.Blocks[0].ID.Session() != s.id {
			return meta.Result{}, posix.EREMOTE // again, with blocks of this session
		}
		reply, doubt, err := c.multicast(ctx, to, s, command)
		if err != nil {
			return meta.Result{}, err
		}
		if reply.Status != ask.UnknownSession {
			return c.result(p, &reply)
		}
		// The session expired, and with it the memory of what was executed under it.
		c.lost(p, s)
		if doubt {
			c.events.warn("doubt", "an update failed although it may have been executed: its session expired while no replica answered", "partition", p.id)
			return meta.Result{}, posix.EIO
		}
		if cmd.Op == meta.OpMknod && cmd.Child != 0 {
			return meta.Result{}, posix.EREMOTE // again, with another number
		}
	}
}

// multicast sends an update under a number of s until it is answered. From here on only the deadline
// of ctx counts (C6): what was sent once may be executed.
func (c *Client) multicast(ctx context.Context, to parties, s *session, command []byte) (ask.Reply, bool, error) {
	seq, err := s.begin(ctx)
	if err != nil {
		return ask.Reply{}, false, err
	}
	defer s.finish(seq)
	ctx, cancel := c.outcomeTime(ctx)
	defer cancel()
	began := time.Now()
	reply, doubt, err := c.exchange(ctx, to.ask, ordering, func() ask.Request {
		return ask.Request{
			Kind: ask.Update, Session: s.id, Seq: seq, Done: s.finished(), Vector: c.vector.snapshot(),
			Dest: to.dest, Command: command,
		}
	})
	switch {
	case err == nil:
		to.ask.counts.update(len(to.dest)).Observe(time.Since(began))
	case errors.Is(err, context.Canceled):
		err = context.DeadlineExceeded // not EINTR: it may have been executed
	}
	return reply, doubt, err
}

// result reads the outcome of a command.
func (c *Client) result(p *partition, reply *ask.Reply) (meta.Result, error) {
	if reply.Status != ask.Answered {
		return meta.Result{}, c.refused(p, reply)
	}
	r, err := meta.DecodeResult(reply.Result)
	if err != nil {
		c.events.warn("result", "a replica's answer does not decode: client and servers are probably of different versions", "partition", p.id, "error", err)
		return meta.Result{}, posix.EIO
	}
	return r, r.Code.Err()
}
