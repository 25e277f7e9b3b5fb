// Package notice logs events of a client for operators, each kind once a minute: one cause may make thousands
// of operations fail.
package notice

import (
	"log/slog"
	"sync"
	"time"
)

// quiet is the time for which an event is not logged again.
const quiet = time.Minute

// Log is a log of events. Its methods may be called concurrently.
type Log struct {
	*slog.Logger

	mu   sync.Mutex
	last map[string]time.Time // GUARDED_BY mu; when each kind was logged
}

// New makes a log that writes to logger.
func New(logger *slog.Logger) *Log { return &Log{Logger: logger, last: map[string]time.Time{}} }

// Rarely logs a warning, unless one of the same kind was logged within the last minute. The text names the
// remedy.
func (l *Log) Rarely(kind, text string, args ...any) {
	now := time.Now()
	l.mu.Lock()
	last, ok := l.last[kind]
	due := !ok || now.Sub(last) >= quiet
	if due {
		l.last[kind] = now
	}
	l.mu.Unlock()
	if due {
		l.Warn(text, args...)
	}
}
