// Package logged keeps the log that code under test writes, for tests that read it meanwhile.
package logged

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Text has the lines that several goroutines have written. The zero value is ready to use.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer // GUARDED_BY mu
}

// Logger returns a logger that writes here.
func (t *Text) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }

// Write implements io.Writer.
func (t *Text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// String returns all that was written.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Has reports whether words were written.
func (t *Text) Has(words string) bool { return strings.Contains(t.String(), words) }

// Count returns how often words were written.
func (t *Text) Count(words string) int { return strings.Count(t.String(), words) }

// Tail returns the last n lines.
func (t *Text) Tail(n int) string {
	lines := strings.Split(t.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
