package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Directories that clients held when a backup was made, or when replicas were lost, are free in the new
// cluster: their sessions have ended.
func TestNobodyHoldsDirectoriesInANewCluster(t *testing.T) {
	ways := map[string]func(stores []Keys) error{
		"restored": func(stores []Keys) error {
			_, err := Refound(stores, 7)
			return err
		},
		"recovered": func(stores []Keys) error {
			_, err := Recover(stores, []bool{true}, nil, 7)
			return err
		},
	}
	for name, begin := range ways {
		t.Run(name, func(t *testing.T) {
			store := kv.NewMemory()
			m, err := meta.New(store, meta.Config{})
			require.NoError(t, err)
			made := m.Apply(&meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "d", Mode: posix.TypeDir | 0o755}, 1)
			require.Equal(t, posix.OK, made.Code)
			held, err := delegation.Load(store)
			require.NoError(t, err)
			require.True(t, held.Begin(5, 1))
			require.True(t, held.Grant(5, made.Attr.Ino))
			held.AddNumbers(5, meta.TakeNumbers(m, delegation.SpansPerGrant*delegation.SpanSize, delegation.SpanSize))
			held.Save()
			require.NoError(t, begin([]Keys{store}))
			free, err := delegation.Load(store)
			require.NoError(t, err)
			require.Zero(t, free.Len())
			require.Zero(t, free.Spare(5))
		})
	}
}
