package client

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

// quiet is how long an event is not logged again.
const quiet = time.Minute

// events logs what an operator should know, each kind once in a while: thousands of
// operations fail of the same cause.
type events struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   map[string]time.Time // GUARDED_BY mu
}

func newEvents(logger *slog.Logger) events {
	return events{logger: logger, last: map[string]time.Time{}}
}

// warn logs an event of a kind; text says what to do.
func (e *events) warn(kind, text string, args ...any) {
	now := time.Now()
	e.mu.Lock()
	last, ok := e.last[kind]
	tell := !ok || now.Sub(last) >= quiet
	if tell {
		e.last[kind] = now
	}
	e.mu.Unlock()
	if tell {
		e.logger.Warn(text, args...)
	}
}

// outcome makes a Code of every error (C1).
func (c *Client) outcome(err error) error {
	var code posix.Code
	switch {
	case err == nil:
		return nil
	case errors.As(err, &code):
		return code
	case c.life().Err() != nil || errors.Is(err, errSuspended):
		return posix.EIO
	case errors.Is(err, context.Canceled):
		return posix.EINTR
	case errors.Is(err, context.DeadlineExceeded):
		return posix.ETIMEDOUT
	case errors.Is(err, block.ErrNoSpace):
		return posix.ENOSPC
	}
	return posix.EIO
}
