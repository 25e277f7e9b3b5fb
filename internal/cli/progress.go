package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/progress"
)

// display shows the progress of a command on stderr.
type display struct {
	after    time.Duration // a command that ends sooner shows nothing
	redraw   time.Duration // on a terminal: the time between two drawings of a bar
	interval time.Duration // elsewhere: the time between two lines
}

// usualDisplay returns the display of all commands.
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
	began := time.Now()
	p := pacer{began: began}
	every, show := d.interval, func(_ progress.State, text string) { fmt.Fprintln(out, text) }
	if isTerminal(out) {
		b := &bar{}
		defer b.close()
		every, show = d.redraw, func(s progress.State, text string) { b.show(ctx, out, s, text) }
	}
	look := time.NewTicker(d.redraw)
	defer look.Stop()
	for next := began.Add(d.after); ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		s, now := state(ctx), time.Now()
		if s.Doing == "" || ctx.Err() != nil {
			continue
		}
		if text := p.line(s, now); !now.Before(next) {
			show(s, text)
			next = now.Add(every)
		}
	}
}

// rateText formats a rate, with a fraction if it is small.
func rateText(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
