//go:build !linux

package server

import "time"

// threadsWaited returns 0: only Linux tells how long threads wait for processors.
func threadsWaited() time.Duration { return 0 }
