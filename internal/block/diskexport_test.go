package block

import "time"

// SetPause makes a cache stay off for another time after a failure.
func (c *DiskCache) SetPause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = d
}
