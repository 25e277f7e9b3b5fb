package clienttest

import (
	"bytes"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
)

// settling is the time that Check gives to commands of several partitions, and to the work that follows from
// them.
const settling = 20 * time.Second

// Check requires that the metadata of each partition and of all together is sound, and that all replicas of a
// partition have the same metadata. It must run in a bubble, without faults of replicas and without
// operations under way.
func (n *Network) Check(t testing.TB) {
	t.Helper()
	<-time.After(settling) // fake time
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn()
	stores := make([]meta.Keys, len(n.groups))
	for i, g := range n.groups {
		stores[i] = g.members[0].keys
		require.Empty(t, meta.Check(stores[i]), "partition %d", i)
		for _, m := range g.members[1:] {
			require.True(t, same(stores[i], m.keys), "two replicas of partition %d differ", i)
		}
	}
	require.Empty(t, meta.CheckAll(stores))
}

// same reports whether two stores have the same content.
func same(a, b meta.Keys) bool {
	next, stop := iter.Pull2(b.Scan(nil, []byte{0xff}))
	defer stop()
	for k, v := range a.Scan(nil, []byte{0xff}) {
		otherKey, otherValue, ok := next()
		if !ok || !bytes.Equal(k, otherKey) || !bytes.Equal(v, otherValue) {
			return false
		}
	}
	_, _, more := next()
	return !more
}
