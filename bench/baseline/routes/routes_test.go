package routes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestTable(t *testing.T) {
	made := 0
	table := Table[[]multicast.GroupID]{Resolve: func(_ []byte, dest []multicast.GroupID) *[]multicast.GroupID {
		made++
		if dest[0] == 9 {
			return nil
		}
		return &dest
	}}
	both := table.To([]multicast.GroupID{0, 300})
	require.Equal(t, []multicast.GroupID{0, 300}, *both)
	require.Same(t, both, table.Find([]byte{0, 0xac, 2}), "made once")
	require.Equal(t, 1, made)
	require.Nil(t, table.To([]multicast.GroupID{9}), "unknown")
	for name, encoded := range map[string][]byte{"empty": {}, "twice": {1, 1}, "descending": {2, 1}, "cut short": {0x80}, "too large": {0xff, 0xff, 0xff, 0xff, 1}} {
		require.Nil(t, table.Find(encoded), name)
	}
	for g := range multicast.GroupID(2 * Most) {
		table.To([]multicast.GroupID{g})
		require.LessOrEqual(t, table.Len(), Most)
	}
}
