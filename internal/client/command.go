package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
)

// query answers a read-only command from one replica of the partition of cmd.Ino.
func (c *Client) query(ctx context.Context, cmd *meta.Command) (meta.Result, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	r, err := c.ask(ctx, cmd)
	return r, c.outcome(err)
}

// ask is query inside an operation.
func (c *Client) ask(ctx context.Context, cmd *meta.Command) (meta.Result, error) {
	r, _, err := c.askAt(ctx, cmd)
	return r, err
}

// askAt also gives the vector of the replica when it answered.
func (c *Client) askAt(ctx context.Context, cmd *meta.Command) (meta.Result, replica.Vector, error) {
	p, err := c.home(cmd.Ino)
	if err != nil {
		return meta.Result{}, nil, err
	}
	command := cmd.Append(nil)
	reply, _, err := c.exchange(ctx, p, reading, func() replica.Request {
		return replica.Request{Kind: replica.Query, Vector: c.vector.snapshot(), Command: command}
	})
	if err != nil {
		return meta.Result{}, nil, err
	}
	r, err := c.result(p, &reply)
	return r, reply.Vector, err
}

// update executes cmd in the partition of the inode at.
func (c *Client) update(ctx context.Context, at posix.Ino, cmd *meta.Command) (meta.Result, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	r, err := c.apply(ctx, at, cmd)
	return r, c.outcome(err)
}

// apply is update inside an operation.
func (c *Client) apply(ctx context.Context, at posix.Ino, cmd *meta.Command) (meta.Result, error) {
	p, err := c.home(at)
	if err != nil {
		return meta.Result{}, err
	}
	command := cmd.Append(nil)
	for {
		s, err := c.session(ctx, p)
		if err != nil {
			return meta.Result{}, err
		}
		reply, doubt, err := c.multicast(ctx, p, s, command)
		if err != nil {
			return meta.Result{}, err
		}
		if reply.Status != replica.UnknownSession {
			return c.result(p, &reply)
		}
		// The session expired, and with it the memory of what was executed under it.
		c.lost(p, s)
		if doubt {
			c.events.warn("doubt", "an update failed although it may have been executed: its session expired while no replica answered", "partition", p.id)
			return meta.Result{}, posix.EIO
		}
	}
}

// multicast sends an update under a number of s until it is answered. From here on only the deadline
// of ctx counts (C6): what was sent once may be executed.
func (c *Client) multicast(ctx context.Context, p *partition, s *session, command []byte) (replica.Reply, bool, error) {
	seq, err := s.begin(ctx)
	if err != nil {
		return replica.Reply{}, false, err
	}
	defer s.finish(seq)
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(c.life, deadline)
	defer cancel()
	return c.exchange(ctx, p, ordering, func() replica.Request {
		return replica.Request{
			Kind: replica.Update, Session: s.id, Seq: seq, Done: s.finished(),
			Vector: c.vector.snapshot(), Command: command,
		}
	})
}

// result reads the outcome of a command.
func (c *Client) result(p *partition, reply *replica.Reply) (meta.Result, error) {
	if reply.Status != replica.Answered {
		return meta.Result{}, c.refused(p, reply)
	}
	r, err := meta.DecodeResult(reply.Result)
	if err != nil {
		c.events.warn("result", "a replica's answer does not decode: client and servers are probably of different versions", "partition", p.id, "error", err)
		return meta.Result{}, posix.EIO
	}
	return r, r.Code.Err()
}
