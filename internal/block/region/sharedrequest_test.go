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
			l := newSharedRequest(buffers.Take(length))
			l.bytes[0] = 1
			l.retain()
			l.release(failed)
			early := buffers.Take(length)
			require.NotSame(t, &l.bytes[0], &early[0], "it has a user")
			l.release(nil)
			if next := buffers.Take(length); &l.bytes[0] == &next[0] {
				return true
			}
		}
		return false
	}
	require.True(t, isUsedAgain(nil))
	require.False(t, isUsedAgain(errors.New("no answer in time")))
}
