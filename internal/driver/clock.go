package driver

import (
	"os"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// clockVariable is for tests of wrong clocks: the value of this environment variable, a duration, is added to
// the time of day of the machine.
const clockVariable = "GLOBALFS_TEST_CLOCK_AHEAD"

// SystemClock is the machine's clock, with Mono counted from its creation.
type SystemClock struct {
	start time.Time
	ahead time.Duration
}

// NewSystemClock starts counting.
func NewSystemClock() SystemClock {
	ahead, _ := time.ParseDuration(os.Getenv(clockVariable)) // 0 without it
	return SystemClock{time.Now(), ahead}
}

// Now reads the clock.
func (c SystemClock) Now() multicast.Instant {
	now := time.Now()
	return multicast.Instant{Mono: now.Sub(c.start), Wall: now.Add(c.ahead).UnixNano()}
}

// Time returns the time of day by the clock.
func (c SystemClock) Time() time.Time { return time.Unix(0, c.Now().Wall) }
