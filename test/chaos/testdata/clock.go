// In the build of a chaos test this file takes the place of internal/driver/clock.go (go build -overlay):
// each server has a clock of its own, which the test steps. Programs that ship have no such hook.

package driver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// SystemClock is the machine's clock, stepped by the seconds in the file of this server.
type SystemClock struct{ start time.Time }

// NewSystemClock starts counting.
func NewSystemClock() SystemClock {
	follow()
	return SystemClock{time.Now()}
}

// Now reads the clock. A step does not change Mono, as on Linux.
func (c SystemClock) Now() multicast.Instant {
	now := time.Now()
	return multicast.Instant{Mono: now.Sub(c.start), Wall: now.UnixNano() + stepped.Load()}
}

// Time returns the time of day for the status. It has no steps: the test waits for a healthy cluster, and
// clocks that differ are a warning there.
func (SystemClock) Time() time.Time { return time.Now() }

var stepped atomic.Int64

// follow reads the file of this server (globalfs server NAME) in CHAOS_CLOCKS every 50 ms.
var follow = sync.OnceFunc(func() {
	dir := os.Getenv("CHAOS_CLOCKS")
	if dir == "" || len(os.Args) < 3 || os.Args[1] != "server" {
		return
	}
	path := filepath.Join(dir, os.Args[2])
	read := func() {
		text, err := os.ReadFile(path)
		seconds, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && wrong == nil {
			stepped.Store(int64(time.Duration(seconds) * time.Second))
		}
	}
	read()
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			read()
		}
	}()
})
