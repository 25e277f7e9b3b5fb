// Package bubble runs a test in a bubble of fake time (testing/synctest).
package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test. Under the race detector it has one processor: the timer channels of a bubble share a
// race context, and two threads that look at such channels at once crash in __tsan::SlotLock
// (golang/go#78156, Go 1.26). Races are found all the same, by the order of events. Not for parallel
// tests.
func Test(t *testing.T, f func(*testing.T)) {
	if race {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
