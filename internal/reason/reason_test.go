package reason

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIn(t *testing.T) {
	for message, want := range map[string]string{
		`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:7420: connect: connection refused"`: "dial tcp 10.0.0.1:7420: connect: connection refused",
		`connection error: desc = "transport: authentication handshake failed: tls: \"x\" is unknown"`:                   `tls: "x" is unknown`,
		`last connection error: connection error: desc = "error reading server preface: EOF"`:                            "error reading server preface: EOF",
		`a desc = "without an end`: `a desc = "without an end`,
		`desc = "bad \q escape"`:   `desc = "bad \q escape"`,
		"plain":                    "plain",
		"":                         "",
	} {
		require.Equal(t, want, In(message))
	}
}
