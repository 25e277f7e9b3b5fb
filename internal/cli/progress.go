package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/progress"
)

// display shows progress on stderr once a command has run for the time after: on a terminal as a bar that is
// drawn again every redraw, otherwise as a line every interval.
type display struct {
	after, redraw, interval time.Duration
}

// usualDisplay is the display of all commands.
func usualDisplay() display { return display{2 * time.Second, 250 * time.Millisecond, 5 * time.Second} }

// metered runs do, and shows the progress of the meter that do fills.
func metered(cmd *cobra.Command, do func(*progress.Meter) error) error {
	meter := new(progress.Meter)
	stop := showProgress(cmd.Context(), cmd.ErrOrStderr(), func(context.Context) progress.State { return meter.State() })
	defer stop()
	return do(meter)
}

// showProgress shows a state until stop is called or ctx ends. It calls state from another goroutine.
func showProgress(ctx context.Context, out io.Writer, state func(context.Context) progress.State) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		usualDisplay().run(ctx, out, state)
	}()
	return func() {
		cancel()
		<-done
	}
}

// run shows the progress until ctx ends.
func (d display) run(ctx context.Context, out io.Writer, state func(context.Context) progress.State) {
	p := pacer{began: time.Now()}
	every, show := d.interval, func(_ progress.State, text string) { fmt.Fprintln(out, text) }
	if isTerminal(out) {
		b := &bar{}
		defer b.close()
		every, show = d.redraw, func(s progress.State, text string) { b.show(ctx, out, s, text) }
	}
	for wait := d.after; ; wait = every {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if s := state(ctx); s.Doing != "" && ctx.Err() == nil {
			show(s, p.line(s, time.Now()))
		}
	}
}

// pacer describes progress over time.
type pacer struct {
	began time.Time // of the counted step, or of all

	unit  string
	first uint64 // units at began
	last  uint64
}

// line returns the step with the count, the rate and, if the total is known, the remaining time. A step that
// counts nothing has the elapsed time.
func (p *pacer) line(s progress.State, now time.Time) string {
	if s.Unit == "" {
		p.unit = ""
		return fmt.Sprintf("%s (%v)", s.Doing, now.Sub(p.began).Round(time.Second))
	}
	if s.Unit != p.unit || s.Done < p.last { // another step
		p.began, p.unit, p.first = now, s.Unit, s.Done
	}
	p.last = s.Done
	text := fmt.Sprintf("%s: %d %s", s.Doing, s.Done, s.Unit)
	if s.Total > 0 {
		text = fmt.Sprintf("%s: %d of %d %s (%d %%)", s.Doing, s.Done, s.Total, s.Unit, 100*min(s.Done, s.Total)/s.Total)
	}
	rate := float64(s.Done-p.first) / max(now.Sub(p.began).Seconds(), 0.001)
	if s.Done == p.first {
		return text
	}
	text += fmt.Sprintf(", %s/s", rateText(rate))
	if s.Total > s.Done {
		text += fmt.Sprintf(", about %v left", time.Duration(float64(s.Total-s.Done)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// rateText formats a rate, with a fraction if it is small.
func rateText(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
