package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// smallSize is little more than the room for other records and one operation.
const smallSize = headerSize + reserve + Spare + 64<<10

func opened(t *testing.T, memory []byte) (*Journal, []Log) {
	t.Helper()
	j, logs, err := Open(memory)
	require.NoError(t, err)
	return j, logs
}

func create(number, request uint64, size int) *Operation {
	name := fmt.Sprint("f", number)
	return &Operation{
		Number: number, Request: request,
		Op: delegation.Op{Command: meta.Command{
			Op: meta.OpMknod, Ino: 7, Name: name, Mode: posix.TypeRegular | 0o644, Child: posix.Ino(1000 + number), Data: make([]byte, size),
		}},
		Result: meta.Result{Attr: posix.Attr{Ino: posix.Ino(1000 + number), Nlink: 1}},
	}
}

var first = ID{Partition: 3, Session: 11, Number: 100}

func numbers(l *Log) (all []uint64) {
	for i := range l.Ops {
		all = append(all, l.Ops[i].Number)
	}
	return all
}

// The next process finds the operations without an acknowledgement, with their outcomes.
func TestReopen(t *testing.T) {
	memory := make([]byte, Size)
	j, logs := opened(t, memory)
	require.Empty(t, logs)
	j.Begin(first)
	for n := range uint64(10) {
		require.True(t, j.Append(first, create(n+1, 50+n, int(n))))
	}
	j.Acknowledge(first, 4)
	other := ID{Partition: 1, Session: 12, Number: 7}
	j.Begin(other)
	require.True(t, j.Append(other, &Operation{Number: 1, Op: delegation.Op{Return: 9}}))

	j, logs = opened(t, memory)
	require.Len(t, logs, 2)
	require.Equal(t, other, logs[0].ID, "by partition")
	require.EqualValues(t, 9, logs[0].Ops[0].Op.Return)
	require.EqualValues(t, 5, logs[1].First)
	require.Equal(t, []uint64{5, 6, 7, 8, 9, 10}, numbers(&logs[1]))
	require.Equal(t, "f6", logs[1].Ops[1].Op.Command.Name)

	isName := func(name string) func(*Operation) bool {
		return func(o *Operation) bool { return o.Op.Command.Name == name }
	}
	_, ok := j.Answer(52, isName("another"))
	require.False(t, ok)
	a, ok := j.Answer(52, isName("f3"))
	require.True(t, ok, "it is acknowledged, but may not be answered")
	require.EqualValues(t, 1003, a.Result.Attr.Ino)
	require.Equal(t, first, a.ID)
	_, ok = j.Answer(52, isName("f3"))
	require.False(t, ok, "it is answered")

	require.True(t, j.Append(first, create(11, 0, 0)))
	j.End(first)
	_, logs = opened(t, memory)
	require.Len(t, logs, 1)
	require.Equal(t, other, logs[0].ID)
}

// A log that holds directories is found, however long ago it has begun.
func TestBegunLogsAreFound(t *testing.T) {
	memory := make([]byte, smallSize)
	j, _ := opened(t, memory)
	idle := ID{Partition: 1, Session: 5, Number: 9}
	j.Begin(idle)
	j.Begin(first)
	for n := range uint64(20 * smallSize / 4096) {
		require.True(t, j.Append(first, create(n+1, 0, 4096)))
		j.Acknowledge(first, n+1)
	}
	_, logs := opened(t, memory)
	require.Len(t, logs, 2)
	require.Equal(t, idle, logs[0].ID)
	require.Empty(t, logs[0].Ops)
	require.Empty(t, logs[1].Ops)
}

func TestFull(t *testing.T) {
	memory := make([]byte, smallSize)
	j, _ := opened(t, memory)
	n := uint64(0)
	for !j.Full() {
		n++
		require.True(t, j.Append(first, create(n, 0, 1000)))
	}
	const large = 60 << 10
	until := n + Spare/large
	for n++; j.Append(first, create(n, 0, large)); n++ {
		require.Less(t, n, uint64(smallSize))
	}
	require.Greater(t, n, until, "there is room for one more of any size")
	before := bytes.Clone(memory)
	require.False(t, j.Append(first, create(n, 0, large)))
	require.Equal(t, before, memory)
	for p := range uint16(100) { // other records find room
		id := ID{Partition: 10 + p, Session: 1, Number: 1}
		j.Begin(id)
		j.End(id)
	}
	_, logs := opened(t, memory)
	require.Len(t, logs, 1)
	require.Len(t, logs[0].Ops, int(n-1))
	j.Acknowledge(first, n-1)
	require.False(t, j.Full())
}

// A model of processes that die: before, in and after each write to the memory. The next process finds all
// operations that were answered and not acknowledged, and none twice or out of order.
func TestDeaths(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 4))
		memory, before := make([]byte, smallSize), make([]byte, smallSize)
		id := ID{Partition: 2, Session: 3, Number: 1}
		j, _ := opened(t, memory)
		j.Begin(id)
		var next, acked uint64 = 1, 0
		for range 400 {
			died := random.IntN(8) == 0
			if died {
				copy(before, memory)
			}
			appends, ends, acks := false, false, acked
			switch k := random.IntN(20); {
			case k < 14 && !j.Full():
				appends = true
				require.True(t, j.Append(id, create(next, 0, random.IntN(20_000))))
			case k < 19:
				acks = acked + random.Uint64N(next-acked)
				j.Acknowledge(id, acks)
			case random.IntN(3) == 0:
				ends = true
				j.End(id)
			}
			if died {
				tear(random, memory, before)
			}
			var logs []Log
			if died || random.IntN(50) == 0 {
				j, logs = opened(t, memory)
				switch {
				case ends && len(logs) == 0:
				case len(logs) != 1:
					t.Fatalf("seed %d: %d logs", seed, len(logs))
				default:
					found := numbers(&logs[0])
					last := next - 1
					if appends && len(found) > 0 && found[len(found)-1] == next {
						last = next // it was not answered, but complete
					}
					require.True(t, slices.IsSorted(found))
					require.LessOrEqual(t, logs[0].First, acks+1, "all that was not acknowledged is there")
					var want []uint64
					for n := logs[0].First; n <= last; n++ {
						want = append(want, n)
					}
					require.Equal(t, want, found, "seed %d", seed)
					appends, ends = last == next, false
				}
			}
			if appends {
				next++
			}
			acked = acks
			if ends {
				id.Number++
				next, acked = 1, 0
				j.Begin(id)
			}
		}
	}
}

// tear makes memory as if its process had died in the middle of the writes since before: some of them are
// missing, the last ones.
func tear(random *rand.Rand, memory, before []byte) {
	var changed []int
	for i := range memory {
		if memory[i] != before[i] {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return
	}
	ring := slices.IndexFunc(changed, func(i int) bool { return i >= headerSize })
	if ring < 0 {
		return
	}
	// The ring is written before the head.
	copy(memory[:headerSize], before[:headerSize])
	for _, i := range changed[ring+random.IntN(len(changed)-ring):] {
		memory[i] = before[i]
	}
}

func TestDamagedMemory(t *testing.T) {
	memory := make([]byte, Size)
	j, _ := opened(t, memory)
	j.Begin(first)
	require.True(t, j.Append(first, create(1, 0, 0)))
	for place, problem := range map[int]string{0: "it begins with", placeFormat: "format 3, this version knows 2", placeHeads: "header is damaged"} {
		bad := bytes.Clone(memory)
		bad[place] ^= 1
		_, _, err := Open(bad)
		require.ErrorContains(t, err, problem)
		require.ErrorContains(t, err, "unmount, and mount")
	}
	_, _, err := Open(make([]byte, 100))
	require.Error(t, err)
}

// written returns a write with a block that is not stored.
func written(number uint64, size int) *Operation {
	id := posix.MakeBlockID(3, 11, number)
	return &Operation{
		Number: number, Block: bytes.Repeat([]byte{byte(number)}, size),
		Op: delegation.Op{Command: meta.Command{Op: meta.OpWrite, Ino: 9, Length: uint64(size), Blocks: []meta.Block{{ID: id, Length: uint32(size)}}}},
	}
}

// The next process finds a block with its operation, also over the end of the ring, and none that is
// acknowledged.
func TestBlocks(t *testing.T) {
	memory := make([]byte, headerSize+reserve+2*Spare+300<<10)
	j, _ := opened(t, memory)
	j.Begin(first)
	const size = 100 << 10
	for n := uint64(1); n < 60; n++ {
		require.True(t, j.TakesBlock(size), n)
		require.True(t, j.Append(first, written(n, size)))
		require.True(t, j.Append(first, create(n+1, 0, 10)))
		n++
		j.Acknowledge(first, n-2)
		_, logs := opened(t, bytes.Clone(memory))
		require.Equal(t, []uint64{n - 1, n}, numbers(&logs[0]))
		require.Equal(t, written(n-1, size).Block, logs[0].Ops[0].Block)
		require.Nil(t, logs[0].Ops[1].Block)
	}
	require.False(t, j.TakesBlock(1<<20), "other operations need the room")
}

// An operation and its block are found together, or not at all (J7).
func TestTornBlock(t *testing.T) {
	memory := make([]byte, Size)
	j, _ := opened(t, memory)
	j.Begin(first)
	require.True(t, j.Append(first, create(1, 0, 10)))
	at := headerSize + int(j.ring.tail)
	require.True(t, j.Append(first, written(2, 5000)))
	for end := headerSize + int(j.ring.tail); end > at; end -= 97 {
		torn := bytes.Clone(memory)
		torn[end-1] ^= 1
		_, logs := opened(t, torn)
		require.Equal(t, []uint64{1}, numbers(&logs[0]))
	}
}

// Memory of an older version takes no block: its log holder would not understand it.
func TestMemoryWithoutBlocks(t *testing.T) {
	memory := make([]byte, Size)
	j, _ := opened(t, memory)
	j.Begin(first)
	memory[placeFormat] = withoutBlocks
	require.True(t, j.TakesBlock(5000))
	j, logs := opened(t, memory)
	require.Len(t, logs, 1)
	require.False(t, j.TakesBlock(5000))
	require.True(t, j.Append(first, create(1, 0, 10)))
	require.EqualValues(t, withoutBlocks, memory[placeFormat])
}

func FuzzOpen(f *testing.F) {
	memory := make([]byte, smallSize)
	j, _, _ := Open(memory)
	j.Begin(first)
	j.Append(first, create(1, 9, 10))
	j.Acknowledge(first, 1)
	f.Add(memory[headerSize : headerSize+300])
	f.Fuzz(func(t *testing.T, b []byte) {
		clear(memory[headerSize:])
		copy(memory[headerSize:], b)
		if j, logs, err := Open(memory); err == nil {
			for i := range logs {
				j.End(logs[i].ID)
			}
			require.True(t, j.Append(first, create(1, 0, 0)))
		}
	})
}
