package cli

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/progress"
)

// pacer computes the rate of a step, and estimates its remaining time. It uses the counts of the last seconds
// rather than of the whole step: many steps begin slowly, and the estimate would be far too long.
type pacer struct {
	began time.Time // the begin of the command
	unit  string    // of the present step; empty: the step counts nothing
	start time.Time // the begin of the present step
	marks []mark    // of the later half of the step, and at least of the last minPace; the oldest first
}

// mark is the count of a step at a time.
type mark struct {
	at   time.Time
	done uint64
}

// minPace is the shortest time over which a remaining time is estimated.
const minPace = 4 * time.Second

// line returns the step with the count, the rate and, if the total is known and the rate is steady, the
// remaining time. A step that counts nothing has the elapsed time.
func (p *pacer) line(s progress.State, now time.Time) string {
	if s.Unit == "" {
		p.unit = ""
		return fmt.Sprintf("%s (%v)", s.Doing, now.Sub(p.began).Round(time.Second))
	}
	p.note(s, now)
	text := fmt.Sprintf("%s: %d %s", s.Doing, s.Done, s.Unit)
	if s.Total > 0 {
		text = fmt.Sprintf("%s: %d of %d %s (%d %%)", s.Doing, s.Done, s.Total, s.Unit, 100*min(s.Done, s.Total)/s.Total)
	}
	rate, steady := p.rate()
	if rate == 0 {
		return text
	}
	text += fmt.Sprintf(", %s/s", rateText(rate))
	if steady && s.Total > s.Done {
		text += fmt.Sprintf(", about %v left", time.Duration(float64(s.Total-s.Done)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// maxMarks is about the number of marks that a pacer keeps.
const maxMarks = 64

// note adds the count of now, and forgets the marks that are too old.
func (p *pacer) note(s progress.State, now time.Time) {
	n := len(p.marks)
	if s.Unit != p.unit || n > 0 && s.Done < p.marks[n-1].done { // another step
		p.unit, p.start, p.marks, n = s.Unit, now, nil, 0
	}
	kept := max(now.Sub(p.start)/2, minPace)
	if n > 1 && p.marks[n-1].at.Sub(p.marks[n-2].at) < kept/maxMarks {
		p.marks = p.marks[:n-1] // it is near the one before it
	}
	p.marks = append(p.marks, mark{now, s.Done})
	for len(p.marks) > 1 && now.Sub(p.marks[1].at) >= kept {
		p.marks = p.marks[1:]
	}
}

// rate returns the units a second over the later half of the marks, or over all marks if that half has none.
// The rate is steady if the rates of the two halves are about equal.
func (p *pacer) rate() (perSecond float64, steady bool) {
	first, last := p.marks[0], p.marks[len(p.marks)-1]
	middle := first
	for _, m := range p.marks {
		if m.at.Sub(first.at) <= last.at.Sub(first.at)/2 {
			middle = m
		}
	}
	early, late := rateBetween(first, middle), rateBetween(middle, last)
	if late == 0 {
		return rateBetween(first, last), false
	}
	return late, last.at.Sub(first.at) >= minPace && late <= 2*early && early <= 2*late
}

func rateBetween(a, b mark) float64 {
	return float64(b.done-a.done) / max(b.at.Sub(a.at).Seconds(), 0.001)
}
