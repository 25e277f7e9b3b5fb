//go:build !linux

package server

import "time"

// threadsWaited returns 0: only Linux reports the time for which threads wait for processors.
func threadsWaited() time.Duration { return 0 }
