package mount

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/serve"
)

// FuzzDecodeState: a decoded state can be adopted, and encodes to the same state.
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
		s, err := serve.DecodeState(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		same, err := serve.DecodeState(again)
		require.NoError(t, err)
		require.Equal(t, s.Holders, same.Holders)
		n := newFileSystem(&Config{})
		n.adopt(s)
		require.GreaterOrEqual(t, n.files.Load(), same.Files)
		holders := map[serve.LockOwner]bool{}
		for _, h := range n.locks.state() {
			holders[h] = true
		}
		for _, h := range same.Holders {
			require.True(t, holders[h] || len(same.Holders) > len(holders), "%v", h)
		}
	})
}

// A state contains the state of the file system.
func TestStateOfAFileSystem(t *testing.T) {
	f := newFileSystem(&Config{})
	f.files.Store(7)
	f.listings.last = 3
	f.retries.refused[9] = time.Now().Add(time.Hour)
	owner := serve.LockOwner{Ino: 5, File: 2, Owner: 4, Flock: true, Closed: true, Ending: true}
	f.locks.adopt(&owner)
	var s serve.State
	require.NoError(t, f.fill(&s, &client.State{Format: 1, Cluster: "c", Running: true}))
	require.Equal(t, serve.State{
		Running: true, Files: 7, Listings: 3, Refused: []uint32{9}, Holders: []serve.LockOwner{owner},
		Client: json.RawMessage(`{"format":1,"cluster":"c","seen":"","running":true}`),
	}, s)
}
