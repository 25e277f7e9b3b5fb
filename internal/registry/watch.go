package registry

import (
	"context"
	"errors"
	"log/slog"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/globalfs/globalfs/internal/pause"
)

var errWatchEnded = errors.New("etcd has ended the watch")

// Watch calls show with the cluster's present description and then with each newer one, until ctx ends (R3).
// The calls are sequential; changes during a call are shown after it.
func (r *Etcd) Watch(ctx context.Context, show func(Document)) {
	w := watch{etcd: r, show: show, logger: r.logger.With("cluster", r.config.Cluster)}
	out := outage{
		logger: w.logger,
		lost:   "changes of the cluster cannot be received: trying again",
		back:   "changes of the cluster are received again",
	}
	for ctx.Err() == nil {
		err := w.round(ctx, &out)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, rpctypes.ErrCompacted): // between load and watch: load the present version
		case err != nil:
			out.begin(err)
			_ = pause.For(ctx, retry)
		}
	}
}

// watch is the state of a Watch.
type watch struct {
	etcd   *Etcd
	show   func(Document)
	logger *slog.Logger

	version  uint64 // the last version shown
	outdated bool   // an older version was found and logged
}

// round loads the description and then watches for changes, until it is time for the next round.
func (w *watch) round(ctx context.Context, out *outage) error {
	document, revision, err := w.etcd.load(ctx)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	out.end()
	if err == nil {
		w.offer(document)
	}
	// Each round ends by itself: after any silent failure, the next round loads anew.
	bounded, cancel := context.WithTimeout(ctx, w.etcd.refresh)
	defer cancel()
	// Without a leader a member would stay connected and send nothing.
	for response := range w.etcd.client.Watch(clientv3.WithRequireLeader(bounded), w.etcd.document(), clientv3.WithRev(revision+1)) {
		if err := response.Err(); err != nil {
			return err
		}
		for _, event := range response.Events {
			if event.Type == clientv3.EventTypePut {
				w.offer(Document{Value: event.Kv.Value, Version: uint64(event.Kv.ModRevision)})
			}
		}
	}
	if bounded.Err() == nil {
		return errWatchEnded
	}
	return nil
}

// offer shows a description if it is newer than the last one shown.
func (w *watch) offer(document Document) {
	switch {
	case document.Version > w.version:
		w.version, w.outdated = document.Version, false
		w.show(document)
	case document.Version < w.version && !w.outdated:
		w.outdated = true
		w.logger.Error("etcd has an older description of the cluster than it had: if it was restored from a backup, restart all processes",
			"version", document.Version, "seen", w.version)
	}
}
