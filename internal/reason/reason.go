// Package reason shortens the messages of gRPC about connections for operators.
package reason

import (
	"strconv"
	"strings"
)

// In returns the reason in a message of gRPC about a connection, without the layers around it:
//
//	connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:7420: connect: connection
//	refused"
//
// says "dial tcp 10.0.0.1:7420: connect: connection refused".
func In(message string) string {
	for {
		_, inner, found := strings.Cut(message, `desc = "`)
		if !found {
			break
		}
		end := strings.LastIndexByte(inner, '"')
		if end < 0 {
			break
		}
		plain, err := strconv.Unquote(`"` + inner[:end] + `"`)
		if err != nil {
			break
		}
		message = plain
	}
	for _, layer := range []string{"transport: ", "Error while dialing: ", "authentication handshake failed: "} {
		message = strings.TrimPrefix(message, layer)
	}
	return message
}
