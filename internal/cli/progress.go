package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress of a command is shown on stderr once the command has run for progressAfter: on a terminal in one
// line that changes, otherwise as a line every progressEvery.
const (
	progressAfter    = 2 * time.Second
	progressEvery    = 5 * time.Second
	progressTerminal = 250 * time.Millisecond
)

// showProgress shows text until stop is called or ctx ends. It calls the function text from another goroutine
// with the time since the start; text returns one line, or an empty string to show nothing.
func showProgress(ctx context.Context, out io.Writer, text func(elapsed time.Duration) string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		began, terminal, width := time.Now(), isTerminal(out), 0
		every := progressEvery
		if terminal {
			every = progressTerminal
		}
		timer := time.NewTimer(progressAfter)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				if width > 0 {
					fmt.Fprintf(out, "\r%s\r", strings.Repeat(" ", width))
				}
				return
			case <-timer.C:
				timer.Reset(every)
			}
			switch line := text(time.Since(began)); {
			case line == "":
			case terminal:
				fmt.Fprintf(out, "\r%-*s", width, line)
				width = len(line)
			default:
				fmt.Fprintln(out, line)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// pace describes progress: the count, the rate and, if the total is known, the remaining time. The unit names
// the counted things, such as "inodes".
func pace(done, total uint64, unit string, elapsed time.Duration) string {
	text := fmt.Sprintf("%d %s", done, unit)
	if total > 0 {
		text = fmt.Sprintf("%d of %d %s (%d %%)", done, total, unit, 100*min(done, total)/total)
	}
	rate := float64(done) / max(elapsed.Seconds(), 0.001)
	if done == 0 {
		return text
	}
	text += fmt.Sprintf(", %.0f/s", rate)
	if total > done {
		text += fmt.Sprintf(", about %v left", time.Duration(float64(total-done)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}
