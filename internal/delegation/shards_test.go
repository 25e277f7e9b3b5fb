package delegation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// In a region with several partitions, a directory that is made inside of a held one stays in its partition:
// the copy of the client knows no others (W4).
func TestDirectoriesStayInTheirPartition(t *testing.T) {
	w := &world{t: t, keys: kv.NewMemory(), log: 1}
	var err error
	w.m, err = meta.New(w.keys, meta.Config{Partition: 3, Shards: []uint16{3, 4, 5}})
	require.NoError(t, err)
	w.load()
	require.True(t, w.Begin(holder, w.log))
	w.AddNumbers(holder, meta.TakeNumbers(w.m, SpansPerGrant*SpanSize, SpanSize))
	var dir posix.Ino
	for i := 0; dir == 0; i++ { // some are in the other partitions
		c := meta.Command{Op: meta.OpMknod, Ino: posix.MakeIno(3, 1), Name: fmt.Sprint(i), Mode: posix.TypeDir | 0o755}
		if r := w.m.Apply(&c, 1); r.Code == posix.OK && r.Number == 3 {
			dir = r.Attr.Ino
		}
	}
	require.True(t, w.Grant(holder, dir))
	for i := range uint64(20) {
		require.Equal(t, Done{Next: i + 2}, w.run(i+1, w.create(dir, fmt.Sprint(i), posix.TypeDir|0o755)))
	}
	require.Len(t, w.Dirs(holder), 21)
}
