package server

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// threadsWaited returns the total time for which the threads of this process were ready to run and had no
// processor. It returns 0 if the kernel does not report the time.
func threadsWaited() (sum time.Duration) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	for _, t := range threads {
		text, err := os.ReadFile("/proc/self/task/" + t.Name() + "/schedstat")
		if err != nil {
			continue // the thread has ended
		}
		if fields := bytes.Fields(text); len(fields) > 1 {
			waited, _ := strconv.ParseInt(string(fields[1]), 10, 64) // 0 if it is malformed
			sum += time.Duration(waited)
		}
	}
	return sum
}
