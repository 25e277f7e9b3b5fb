package block_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
)

// The block of a draft equals one of the same bytes that was made at once.
func TestDraft(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var d block.Draft
		var want []byte
		require.Empty(t, d.Data())
		for range 1 + random.IntN(6) {
			piece := make([]byte, random.IntN(1<<random.IntN(18)))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			if random.IntN(3) == 0 {
				d.Reserve(len(want) + random.IntN(1<<18))
			}
			d.Append(piece)
			want = append(want, piece...)
			require.Equal(t, len(want), d.Len())
			require.True(t, bytes.Equal(want, d.Data()))
		}
		if len(want) == 0 {
			continue
		}
		d.Data()[0] ^= 1
		want[0] ^= 1
		id, other := block.ID{1, 2}, block.ID{3}
		b := d.Seal(id)
		made := block.New(id, want)
		require.Equal(t, made.Sum, b.Sum)
		require.True(t, bytes.Equal(made.Data, b.Data))
		require.True(t, bytes.Equal(made.Frame(), b.Frame()))
		again := d.Seal(other)
		require.Equal(t, other, again.ID)
		require.True(t, again.IsIntact())
		require.True(t, bytes.Equal(made.Frame(), b.Frame()), "the first block is not changed")
	}
}

// A block of a whole draft costs no copy of the data, and a small block does not keep the room of its draft.
func TestDraftsMemory(t *testing.T) {
	data := make([]byte, block.MaxSize)
	d := block.NewDraft(data)
	b := d.Seal(block.ID{1})
	require.Same(t, &d.Data()[0], &b.Data[0])
	small := block.NewDraft(data[:100])
	require.Less(t, cap(small.Seal(block.ID{2}).Data), 1000)
}
