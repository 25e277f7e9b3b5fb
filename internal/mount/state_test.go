package mount

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecodeState: what is decoded can be adopted, and is the same when it is told again.
func FuzzDecodeState(f *testing.F) {
	const terms = `"terms":{"answered":"AAAAAAAAAAAAAAAAAAAAAAAAAAA="}`
	for _, seed := range []string{
		`{"format":1}`, `{"format":2}`, `{"format":1,"files":3,"listings":2,"refused":[7],` + terms + `}`,
		`{"format":1,"holders":[{"ino":7,"file":1,"owner":2,"flock":true,"ending":true},{"ino":7,"file":1,"owner":3,"closed":true}],` + terms + `}`,
		`{"format":2,"root":281474976710657,` + terms + `}`, `{"format":1,"running":true,"requests":["AAAA"],` + terms + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeState(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		same, err := decodeState(again)
		require.NoError(t, err)
		require.Equal(t, s.Holders, same.Holders)
		n := newFileSystem(&Config{})
		n.adopt(s)
		require.GreaterOrEqual(t, n.files.Load(), same.Files)
		holders := map[holderState]bool{}
		for _, h := range n.locks.state() {
			holders[h] = true
		}
		for _, h := range same.Holders {
			require.True(t, holders[h] || len(same.Holders) > len(holders), "%v", h)
		}
	})
}
