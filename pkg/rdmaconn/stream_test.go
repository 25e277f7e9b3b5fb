package rdmaconn

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// bytesMemory is a region without a fabric.
type bytesMemory []byte

func (m bytesMemory) Size() int                { return len(m) }
func (m bytesMemory) Load(at int, into []byte) { copy(into, m[at:at+len(into)]) }
func (m bytesMemory) Store(at int, b []byte)   { copy(m[at:at+len(b)], b) }

func newStreams(ring int) (a, b *stream) {
	side := func() *stream {
		return &stream{memory: make(bytesMemory, ringAt+ring), ring: uint64(ring)}
	}
	return side(), side()
}

// deliver executes some operations of a stream in the memory of its peer.
func deliver(from, to *stream, n int) {
	for _, op := range from.ops[:n] {
		to.memory.Store(op.At, op.Data)
	}
	from.ops = from.ops[n:]
}

// TestStreams: bytes in both directions, in pieces of all sizes, with operations that arrive late, arrive
// once and in order, and the end of a stream behind them.
func TestStreams(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		a, b := newStreams([]int{64, 256, 4096}[seed%3])
		type direction struct {
			from, to  *stream
			want, got []byte
			total     int
		}
		ways := []*direction{{from: a, to: b, total: random.IntN(20_000)}, {from: b, to: a, total: random.IntN(20_000)}}
		steps := 0
		for !a.finished || !b.finished || a.readable()+b.readable() > 0 {
			steps++
			require.Less(t, steps, 1_000_000, "seed %d: no progress", seed)
			w := ways[random.IntN(2)]
			switch random.IntN(4) {
			case 0:
				p := make([]byte, min(random.IntN(300), w.total-len(w.want)))
				for i := range p {
					p[i] = byte(random.Uint32())
				}
				w.want = append(w.want, p[:w.from.write(p)]...)
				if len(w.want) == w.total {
					w.from.end()
				}
			case 1:
				deliver(w.from, w.to, random.IntN(len(w.from.ops)+1))
			case 2:
				require.NoError(t, w.to.look())
			case 3:
				p := make([]byte, random.IntN(300))
				w.got = append(w.got, p[:w.to.read(p)]...)
			}
		}
		for _, w := range ways {
			require.Len(t, w.want, w.total)
			require.True(t, bytes.Equal(w.want, w.got), "seed %d", seed)
		}
	}
}

// Impossible words of the peer are errors.
func TestBrokenPeer(t *testing.T) {
	for name, words := range map[string]map[int]uint64{
		"more than the ring":       {headAt: 65},
		"more than was sent":       {creditAt: 1},
		"bytes behind the end":     {headAt: 9, endAt: 9},
		"fewer bytes than before":  {headAt: 7},
		"a huge count":             {headAt: 1 << 63},
		"credit for a huge amount": {creditAt: 1 << 63},
	} {
		a, b := newStreams(64)
		require.Equal(t, 8, b.write(make([]byte, 8)))
		b.end()
		deliver(b, a, len(b.ops))
		require.NoError(t, a.look())
		require.True(t, a.finished)
		for at, v := range words {
			a.memory.Store(at, binary.LittleEndian.AppendUint64(nil, v))
		}
		require.Error(t, a.look(), name)
	}
}
