package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The layers of the network disappear from an error. The rest stays.
func TestPlain(t *testing.T) {
	const refused = "127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"
	for text, plain := range map[string]string{
		"server: process unreachable: " + refused:                                      "127.0.0.1:1: connection refused",
		"127.0.0.1:1: server: process unreachable: " + refused:                         "127.0.0.1:1: connection refused",
		"list the blocks: process 7: process unreachable: " + refused:                  "list the blocks: 127.0.0.1:1: connection refused",
		"too few answer: process 1: process unreachable: 127.0.0.1:1: no answer in 2s": "too few answer: 127.0.0.1:1: no answer in 2s",
		"partition 2: no majority":                                                     "partition 2: no majority",
	} {
		require.Equal(t, plain, Plain(text))
	}
}

// Servers that fail for the same reason share it.
func TestJoinReasons(t *testing.T) {
	require.Equal(t, "a:1, b:1: refused; c:1: no route; interrupted", joinReasons([]string{"b:1: refused", "interrupted", "c:1: no route", "a:1: refused"}))
}
