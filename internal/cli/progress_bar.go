package cli

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/globalfs/globalfs/internal/progress"
)

// bar is a progress bar on a terminal, with the text of a pacer after it. The first show draws it.
type bar struct {
	drawing *mpb.Progress // nil: not drawn yet
	bar     *mpb.Bar
	text    atomic.Pointer[string]
}

// barWidth is the number of columns of the bar without its text.
const barWidth = 30

func (b *bar) draw(ctx context.Context, out io.Writer) {
	b.drawing = mpb.NewWithContext(ctx, mpb.WithOutput(out))
	filler := mpb.BarStyle().Build()
	counted := mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		if s.Total <= 0 {
			return nil // a bar without a total has no length
		}
		return filler.Fill(w, s)
	})
	text := decor.Any(func(decor.Statistics) string { return " " + *b.text.Load() })
	// It fails only after the end of ctx: then nothing is drawn.
	b.bar, _ = b.drawing.Add(0, counted, mpb.AppendDecorators(text), mpb.BarWidth(barWidth), mpb.BarFillerTrim())
}

func (b *bar) show(ctx context.Context, out io.Writer, s progress.State, text string) {
	b.text.Store(&text)
	if b.drawing == nil {
		b.draw(ctx, out)
	}
	if b.bar != nil {
		total := s.Total
		if total > 0 {
			total = max(total, s.Done)
		}
		b.bar.SetTotal(int64(total), false)
		b.bar.SetCurrent(int64(s.Done))
	}
}

// close removes the bar, and waits for the end of the drawing.
func (b *bar) close() {
	if b.drawing == nil {
		return
	}
	if b.bar != nil {
		b.bar.Abort(true)
	}
	b.drawing.Shutdown()
}
