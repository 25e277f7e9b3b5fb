package driver

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// SystemClock is the machine's clock, with Mono counted from its creation.
type SystemClock struct{ start time.Time }

// NewSystemClock starts counting.
func NewSystemClock() SystemClock { return SystemClock{time.Now()} }

// Now reads the clock.
func (c SystemClock) Now() multicast.Instant {
	now := time.Now()
	return multicast.Instant{Mono: now.Sub(c.start), Wall: now.UnixNano()}
}
