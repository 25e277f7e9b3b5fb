package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxClockDifference is the maximum difference between the clocks of two servers. Files get their times from
// these clocks.
const maxClockDifference = time.Second

// Clock is the clock of a server, relative to the clock of the caller.
type Clock struct {
	Known  bool
	Ahead  time.Duration // difference to the caller's clock
	Within time.Duration // maximum error of Ahead: half of the duration of the call
}

// readClock computes the clock of a server that was read at an unknown moment of a call.
func readClock(asked, answered, read time.Time) Clock {
	if read.IsZero() {
		return Clock{}
	}
	half := answered.Sub(asked) / 2 // by the monotonic clock
	return Clock{Known: true, Ahead: read.Sub(asked.Add(half).Round(0)), Within: half}
}

// clocksDiffer returns the names of the servers whose clocks certainly differ from the median of all clocks
// by more than maxClockDifference.
func clocksDiffer(answers []Answer) (odd []string) {
	var known []Answer
	for _, a := range answers {
		if a.Error == "" && a.Clock.Known {
			known = append(known, a)
		}
	}
	if len(known) < 2 {
		return nil
	}
	slices.SortStableFunc(known, func(a, b Answer) int { return cmp.Compare(a.Clock.Ahead, b.Clock.Ahead) })
	if len(known) == 2 { // there is no majority for either clock
		first, last := known[0], known[1]
		if apart := last.Clock.Ahead - first.Clock.Ahead; apart-first.Clock.Within-last.Clock.Within > maxClockDifference {
			return []string{fmt.Sprintf("%s is %v ahead of %s", last.Server.Name, apart.Round(100*time.Millisecond), first.Server.Name)}
		}
		return nil
	}
	median := known[len(known)/2].Clock
	for _, a := range known {
		ahead := a.Clock.Ahead - median.Ahead
		if ahead.Abs()-a.Clock.Within-median.Within <= maxClockDifference {
			continue
		}
		word := "ahead of"
		if ahead < 0 {
			word = "behind"
		}
		odd = append(odd, fmt.Sprintf("%s is %v %s most servers", a.Server.Name, ahead.Abs().Round(100*time.Millisecond), word))
	}
	slices.Sort(odd)
	return odd
}
