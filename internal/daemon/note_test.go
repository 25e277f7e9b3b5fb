package daemon

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// Only numbers that the server itself has signed are believed: etcd can withhold them, and cannot change
// them.
func TestNumbersInEtcdAreSigned(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	of := func(name string) *rollbacks {
		c, err := identity.Load(identity.FilesIn(w.file.Certificates, identity.Server, name), quiet())
		require.NoError(t, err)
		return &rollbacks{name: name, credentials: c}
	}
	a, b := of("westa"), of("westb")
	n := Numbers{Server: "westa", Instance: "i", Incarnation: 7, Logs: map[uint32]wal.Position{3: {Segment: 1, Batch: 2}}}
	text, err := a.writeNote(&n)
	require.NoError(t, err)
	got, err := a.readNote(text)
	require.NoError(t, err)
	require.Equal(t, n, got)

	_, err = a.readNote(bytes.Replace(text, []byte(`"incarnation":7`), []byte(`"incarnation":9`), 1))
	require.ErrorIs(t, err, identity.ErrSignature)
	plain, err := (&rollbacks{name: "westa"}).writeNote(&n)
	require.NoError(t, err)
	_, err = a.readNote(plain)
	require.ErrorIs(t, err, identity.ErrSignature)
	other, err := b.writeNote(&n)
	require.NoError(t, err)
	_, err = a.readNote(other)
	require.ErrorContains(t, err, "westb")
	n.Server = "westb"
	text, err = a.writeNote(&n)
	require.NoError(t, err)
	_, err = a.readNote(text)
	require.ErrorContains(t, err, `they are of server "westb"`)
}

// The numbers that a running server has in etcd are believed by its next start.
func TestNumbersInEtcdAreReadBack(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	w.startAll()
	r := w.running["westa"].rollbacks
	text, err := r.registry.Noted(t.Context(), "westa")
	require.NoError(t, err)
	n, err := r.readNote(text)
	require.NoError(t, err)
	require.Equal(t, uint64(1), n.Incarnation)
	require.Len(t, r.askRegistry(t.Context()), 1)
}
