package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/reason"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors on which callers base decisions.
var (
	// ErrUnavailable means that the registry could not execute the operation now, and may later. The
	// operation may have happened although its answer did not arrive.
	ErrUnavailable = errors.New("the registry is unavailable")
	// ErrNotFound means that the cluster has no such entry.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the description has another version now: load, change and try again.
	ErrConflict = errors.New("another one was faster")
	// ErrTaken means that another instance has the name.
	ErrTaken = errors.New("the name is taken")
	// ErrLive means that servers of the cluster are live.
	ErrLive = errors.New("servers are live")
)

var errClosed = errors.New("the registry is closed")

const (
	quorumRemedy = "most of its members must run and reach each other"
	reachRemedy  = "check that it runs, that this host reaches it, and the certificates of both"
)

// remedies has the remedies for errors of etcd.
var remedies = map[error]string{
	rpctypes.ErrNoSpace:          "its database is full: compact and defragment it, then disarm the alarm (etcdctl alarm disarm)",
	rpctypes.ErrCorrupt:          "its database is damaged: see its log",
	rpctypes.ErrAuthFailed:       "check the user's name and password",
	rpctypes.ErrUserEmpty:        "it asks for a user: give a name and a password",
	rpctypes.ErrPermissionDenied: "let the user read and write the keys of this cluster",
	rpctypes.ErrInvalidAuthToken: "the login has ended: check the user's name and password",
	rpctypes.ErrRequestTooLarge:  "raise its --max-request-bytes to 2 MiB or more",
	rpctypes.ErrNoLeader:         quorumRemedy,
	rpctypes.ErrTimeout:          quorumRemedy,
}

// translate converts the error of a call to an error of this package. ctx is the caller's context, bounded
// the context of the call.
func (r *Etcd) translate(ctx, bounded context.Context, err error, latest *cause) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if bounded.Err() != nil {
		err = latest.or(err)
	}
	reported, remedy := status.Convert(err), reachRemedy
	code := reported.Code()
	var answer rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &answer) {
		code, remedy = answer.Code(), remedies[answer]
	}
	where := "etcd at " + strings.Join(r.config.Endpoints, ", ")
	if remedy != "" {
		where += ": " + remedy
	}
	switch {
	case bounded.Err() == nil && code != codes.Unavailable && code != codes.DeadlineExceeded && code != codes.ResourceExhausted:
		return fmt.Errorf("%s (%s)", reason.In(reported.Message()), where)
	case ctx.Err() != nil: // a deadline of the caller
		return fmt.Errorf("%w: %w: %s (%s)", ErrUnavailable, ctx.Err(), reason.In(reported.Message()), where)
	}
	return fmt.Errorf("%w: %s (%s)", ErrUnavailable, reason.In(reported.Message()), where)
}

// outage logs a loss once, and its end once.
type outage struct {
	logger     *slog.Logger
	lost, back string // the messages
	since      time.Time
}

func (o *outage) begin(err error) {
	if o.since.IsZero() {
		o.since = time.Now()
		o.logger.Warn(o.lost, "error", err)
	}
}

func (o *outage) end() {
	if !o.since.IsZero() {
		o.logger.Info(o.back, "after", time.Since(o.since).Round(time.Millisecond))
		o.since = time.Time{}
	}
}
