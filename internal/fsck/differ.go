package fsck

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/globalfs/globalfs/internal/kv"
)

// differ describes the first difference between a and b; empty if they are equal.
func differ(a, b *kv.Store) string {
	next, stop := iter.Pull2(b.Scan(nil, nil))
	defer stop()
	for key, value := range a.Scan(nil, nil) {
		other, otherValue, ok := next()
		switch {
		case !ok || bytes.Compare(key, other) < 0:
			return fmt.Sprintf("it has no key %x", key)
		case bytes.Compare(key, other) > 0:
			return fmt.Sprintf("only it has key %x", other)
		case !bytes.Equal(value, otherValue):
			return fmt.Sprintf("the value of key %x is %s and not %s", key, shown(otherValue), shown(value))
		}
	}
	if key, _, ok := next(); ok {
		return fmt.Sprintf("only it has key %x", key)
	}
	return ""
}

// maxShown bounds the bytes of a value in a report.
const maxShown = 64

func shown(value []byte) string {
	if len(value) > maxShown {
		return fmt.Sprintf("%x... (%d bytes)", value[:maxShown], len(value))
	}
	return fmt.Sprintf("%x", value)
}
