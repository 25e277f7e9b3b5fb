package kv

// cache holds recently read or written values; nil means that a key is absent. It has two generations: values
// that are not used while the young one fills up are dropped. Its size is at most twice limit.
type cache struct {
	young, old map[string][]byte
	size       int // bytes in young
	limit      int
}

// entryOverhead is the approximate cost of a map entry beside its bytes.
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
