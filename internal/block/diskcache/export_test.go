package diskcache

import "time"

// SetPause sets the time for which a cache is off after a failure.
func (c *Cache) SetPause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = d
}
