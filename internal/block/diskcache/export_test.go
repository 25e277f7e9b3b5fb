package diskcache

import "time"

// SetPause makes a cache stay off for another time after a failure.
func (c *Cache) SetPause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = d
}
