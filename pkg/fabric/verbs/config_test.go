package verbs

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
)

func noDial(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errors.New("no") }

func TestConfigNamesTheWrongField(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Self":     {Dial: noDial},
		"Dial":     {Self: 1},
		"Timeout":  {Self: 1, Dial: noDial, Timeout: -1},
		"Look":     {Self: 1, Dial: noDial, Look: -1},
		"GIDIndex": {Self: 1, Dial: noDial, GIDIndex: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}
