package region

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/buffers"
)

// The memory of a request is given back by its last user, unless a call with it has failed.
func TestSharedRequest(t *testing.T) {
	const length = 1 << 20
	isUsedAgain := func(failed error) bool {
		for range 100 { // the race detector drops memory at random
			r := newSharedRequest(buffers.Take(length))
			r.bytes[0] = 1
			r.retain()
			r.release(failed)
			early := buffers.Take(length)
			require.NotSame(t, &r.bytes[0], &early[0], "it has a user")
			r.release(nil)
			if next := buffers.Take(length); &r.bytes[0] == &next[0] {
				return true
			}
		}
		return false
	}
	require.True(t, isUsedAgain(nil))
	require.False(t, isUsedAgain(errors.New("no answer in time")))
}
