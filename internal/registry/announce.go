package registry

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/globalfs/globalfs/internal/pause"
)

var (
	errLeaseEnded = errors.New("etcd did not hear of this server for too long: its lease has ended")
	errKeyGone    = errors.New("somebody has removed this server's key")
)

// Announce keeps a server among the live ones until ctx ends. Then it removes the server, which takes up to
// Config.Timeout, and returns nil. While etcd is unavailable it keeps trying. The only errors are those of an
// invalid Presence, and ErrTaken: another instance has the name, or another process with the same instance
// took it, which means that it runs with a copy of this server's data.
func (r *Etcd) Announce(ctx context.Context, p Presence) error {
	if err := p.validate(); err != nil {
		return err
	}
	out := outage{
		logger: r.logger.With("cluster", r.config.Cluster, "server", p.Name),
		lost:   "others do not see this server as live: trying again",
		back:   "others see this server as live again",
	}
	for ctx.Err() == nil {
		err := r.announceOnce(ctx, p, &out)
		if errors.Is(err, ErrTaken) {
			return err
		}
		if ctx.Err() == nil {
			out.begin(err)
			_ = pause.For(ctx, retry)
		}
	}
	return nil
}

// announceOnce takes the name and keeps it, until it is lost or ctx ends.
func (r *Etcd) announceOnce(ctx context.Context, p Presence, out *outage) error {
	lease, err := r.claim(ctx, p)
	if err != nil {
		return err
	}
	out.end()
	if err := r.keep(ctx, p, lease); ctx.Err() == nil {
		return err
	}
	err = r.do(context.WithoutCancel(ctx), fmt.Sprintf("take server %q out", p.Name), func(ctx context.Context) error {
		_, err := r.client.Revoke(ctx, lease)
		return err
	})
	if err != nil {
		out.logger.Warn("others may see this server as live until its lease ends", "lease", r.config.Lease, "error", err)
	}
	return err
}

// keep renews the lease three times in its duration, and checks that the name is still bound to it. It
// returns the reason for the loss of the name.
func (r *Etcd) keep(ctx context.Context, p Presence, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewed, err := r.client.KeepAlive(ctx, lease)
	if err != nil {
		return err
	}
	for range renewed {
		now, err := r.holder(ctx, fmt.Sprintf("keep server %q announced", p.Name), p)
		switch {
		case errors.Is(err, ErrTaken):
			return err
		case err != nil: // the lease ends if this lasts
		case now.revision == 0:
			return errKeyGone
		case now.lease != lease:
			return fmt.Errorf("registry: keep server %q announced: %w by another process with this instance %s: is there a copy of this server's data?",
				p.Name, ErrTaken, p.Instance)
		}
	}
	return errLeaseEnded
}
