package kv

// cache holds values read or written lately; nil says that a key is absent. It is two
// generations: what is not used while the young one fills up is let go. What it holds
// is at most twice limit.
type cache struct {
	young, old map[string][]byte
	size       int // bytes in young
	limit      int
}

// entryOverhead is about what a map entry costs beside its bytes.
const entryOverhead = 64

func (c *cache) get(key []byte) (value []byte, ok bool) {
	if value, ok = c.young[string(key)]; ok {
		return value, true
	}
	if value, ok = c.old[string(key)]; ok {
		c.put(string(key), value)
	}
	return value, ok
}

func (c *cache) put(key string, value []byte) {
	if c.size >= c.limit || c.young == nil {
		c.young, c.old, c.size = map[string][]byte{}, c.young, 0
	}
	c.young[key] = value
	c.size += len(key) + len(value) + entryOverhead
}
