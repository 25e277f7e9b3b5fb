package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	good := Op{Kind: Write, Peer: 1, Data: []byte{1}}
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Op){
		"unknown kind": func(op *Op) { op.Kind = kinds },
		"no peer":      func(op *Op) { op.Peer = 0 },
		"at -1":        func(op *Op) { op.At = -1 },
		"covers":       func(op *Op) { op.Length = MaxRegion + 1 },
	} {
		op := good
		change(&op)
		require.ErrorContains(t, op.Validate(), want)
	}
}

func TestSize(t *testing.T) {
	for want, op := range []Op{{Kind: Reset, Length: 9}, {Data: []byte{1}, Length: 7}, {Kind: Read, Length: 2, Data: []byte{1}}} {
		require.Equal(t, want, op.Size())
	}
}

func TestStatusNames(t *testing.T) {
	require.Equal(t, "flushed", Flushed.String())
	require.Equal(t, "status 9", Status(9).String())
}

func TestEventsReset(t *testing.T) {
	e := Events{Completions: make([]Completion, 2), Landed: make([]Landed, 1)}
	require.True(t, e.Any())
	e.Reset()
	require.False(t, e.Any())
}
