package serve

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func fillIn(s *State) error {
	s.Running, s.Files, s.Listings, s.Refused = true, 7, 3, []uint32{9}
	s.Holders = []LockOwner{{Ino: 5, File: 2, Owner: 4, Flock: true, Closed: true, Ending: true}}
	s.Client = json.RawMessage(`{"format":1}`)
	return nil
}

// The bytes of a state do not change: other versions read them.
func TestStateBytes(t *testing.T) {
	m := &Mount{dir: "/mnt", server: &server{root: 1<<48 | 1, terms: Terms{[]byte("asked"), []byte("answered")}}}
	packed, err := m.state(fillIn, []*request{{raw: []byte("request")}})
	require.NoError(t, err)
	require.Equal(t, `{"format":2,"dir":"/mnt","terms":{"asked":"YXNrZWQ=","answered":"YW5zd2VyZWQ="},"root":281474976710657,"running":true,`+
		`"files":7,"listings":3,"refused":[9],"holders":[{"ino":5,"file":2,"owner":4,"flock":true,"closed":true,"ending":true}],`+
		`"requests":["cmVxdWVzdA=="],"client":{"format":1}}`, string(packed))

	m.server.root = posix.Root
	packed, err = m.state(func(*State) error { return nil }, nil)
	require.NoError(t, err)
	require.Equal(t, `{"format":1,"dir":"/mnt","terms":{"asked":"YXNrZWQ=","answered":"YW5zd2VyZWQ="},"files":0,"listings":0,"client":null}`, string(packed))

	failed := errors.New("failed")
	_, err = m.state(func(*State) error { return failed }, nil)
	require.ErrorIs(t, err, failed)
}
