package behind

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

// cluster is a Store in memory.
type cluster struct {
	mu       sync.Mutex
	content  map[posix.Ino][]byte
	batches  []Batch // without content
	blocks   int
	staged   int   // blocks that were neither written nor dropped
	writing  int   // batches of one file at a time: at most one
	overlaps int   // number of times that it was more
	fail     error // of writes
	noStage  error
	hold     chan struct{} // writes wait until it is closed; nil: they do not
	quick    bool          // IsQuick
}

type stored struct{ c *cluster }

func (s stored) Drop() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.staged--
}

func (c *cluster) Stage(_ context.Context, _ posix.Ino, draft *block.Draft) (Staged, error) {
	data := draft.Data()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(data) == 0 || len(data) > blockSize {
		return nil, errors.New("no block")
	}
	if c.noStage != nil {
		return nil, c.noStage
	}
	c.blocks++
	c.staged++
	return stored{c}, nil
}

func (c *cluster) setQuick(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quick = is
}

func (c *cluster) IsQuick(posix.Ino) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quick
}

func (c *cluster) Write(ctx context.Context, b *Batch) error {
	c.mu.Lock()
	if c.writing++; c.writing > 1 {
		c.overlaps++
	}
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing--
	for _, p := range b.Parts {
		if p.Staged != nil {
			c.staged--
		}
	}
	if c.fail != nil {
		return c.fail
	}
	at := int(b.Offset)
	if b.Append {
		at = len(c.content[b.Ino])
	}
	for _, p := range b.Parts {
		c.content[b.Ino] = put(c.content[b.Ino], at, p.Data.Data())
		at += p.Data.Len()
	}
	noted := *b
	noted.Parts = nil
	c.batches = append(c.batches, noted)
	return nil
}

// put returns content after a write of data at an offset.
func put(content []byte, at int, data []byte) []byte {
	content = append(content, make([]byte, max(0, at+len(data)-len(content)))...)
	copy(content[at:], data)
	return content
}

func filesOf(t *testing.T, c *cluster, delay time.Duration, memory int64) *Files {
	c.content = map[posix.Ino][]byte{}
	f := New(Config{Store: c, Delay: delay, Memory: memory, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// bytesOfAPattern repeat after a number that is no part of the size of a block.
var bytesOfAPattern = func() []byte {
	b := make([]byte, 12347)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return bytes.Repeat(b, 2000)
}()

func pattern(n int) []byte { return bytes.Clone(bytesOfAPattern[:n]) }

func write(t *testing.T, f *Files, w Write) {
	t.Helper()
	kept, err := f.Write(t.Context(), &w)
	require.NoError(t, err)
	require.True(t, kept)
}

const never = time.Hour

func TestSmallWritesMerge(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	want := pattern(20<<20 + 5000)
	const from = 3000
	for at := 0; at < len(want); at += 8 << 10 {
		write(t, f, Write{Ino: 9, Handle: 1, Offset: uint64(from + at), Data: want[at:min(len(want), at+8<<10)]})
	}
	require.NoError(t, f.Flush(t.Context(), 9))
	require.True(t, bytes.Equal(want, c.read(9)[from:]))
	require.Len(t, c.batches, 3, "some full blocks each")
	require.EqualValues(t, blockSize*maxBlocks, c.batches[1].Offset-from, "large batches")
	require.Less(t, c.blocks, 26)
	require.Zero(t, c.staged)
	require.Zero(t, f.unordered.Load())
}

// Blocks of a file end at the same offsets as those of a file that was written at once.
func TestBlocksAreAligned(t *testing.T) {
	r := newRun(&Write{Ino: 1, Offset: 1000})
	var full []int
	r.add(&Write{Offset: 1000, Data: make([]byte, 2<<20)}, func(_ *run, p *Part) { full = append(full, p.Data.Len()) })
	require.Equal(t, []int{blockSize - 1000, blockSize}, full)
	require.Len(t, r.Parts, 3)
	require.Equal(t, 1000, r.Parts[2].Data.Len())
	require.EqualValues(t, 1000+2<<20, r.end())
}

// For all writes and flushes the content is that of the writes in their order.
func TestContentAgainstAModel(t *testing.T) {
	for seed := range uint64(8) {
		var c cluster
		f := filesOf(t, &c, time.Millisecond, 8<<20)
		random := rand.New(rand.NewPCG(seed, 1))
		model := map[posix.Ino][]byte{}
		next := map[posix.Ino]int{}
		for range 100 {
			c.setQuick(random.IntN(2) == 0)
			ino := posix.Ino(1 + random.IntN(3))
			w := Write{Ino: ino, Handle: uint64(ino), Offset: uint64(next[ino]), Data: pattern(1 + random.IntN(1<<random.IntN(21)))}
			w.Data[0] = byte(random.Uint32())
			switch random.IntN(8) {
			case 0:
				w.Offset = uint64(random.IntN(3 << 20))
			case 1:
				w.Offset -= uint64(random.IntN(min(next[ino], 5000) + 1)) // the last write, again
			case 2:
				w.Append = true
			case 3:
				require.NoError(t, f.FlushHandle(t.Context(), ino, w.Handle))
				require.True(t, bytes.Equal(model[ino], c.read(ino)))
			}
			at := int(w.Offset)
			if w.Append {
				at = len(model[ino])
			}
			model[ino] = put(model[ino], at, w.Data)
			next[ino] = at + len(w.Data)
			write(t, f, w)
		}
		require.NoError(t, f.FlushAll(t.Context()))
		for ino, want := range model {
			require.True(t, bytes.Equal(want, c.read(ino)), "seed %d", seed)
			f.Release(ino, uint64(ino))
		}
		require.Zero(t, c.staged)
		require.Empty(t, f.files)
		require.True(t, f.budget.tryAcquire(8<<20, false), "no memory is held")
	}
}

func (c *cluster) read(ino posix.Ino) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.content[ino])
}

// Batches of a file are ordered one after the other, while the program continues to write.
func TestBatchesAreOrderedInTurn(t *testing.T) {
	c := cluster{hold: make(chan struct{})}
	f := filesOf(t, &c, never, 64<<20)
	for i := range 10 {
		write(t, f, Write{Ino: 1, Handle: 1, Offset: uint64(9 - i), Data: []byte{byte(i)}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Flush(ctx, 1), posix.EINTR)
	close(c.hold)
	require.NoError(t, f.Flush(t.Context(), 1))
	require.Equal(t, []byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, c.read(1))
	require.Zero(t, c.overlaps)
}

func TestContentIsOrderedWithoutAFlush(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, time.Millisecond, 64<<20)
	write(t, f, Write{Ino: 1, Handle: 1, Data: []byte("x")})
	require.Eventually(t, func() bool { return string(c.read(1)) == "x" }, time.Minute, time.Millisecond)
}

// One append is in one command, for any number of collected appends.
func TestAppendsStayTogether(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	line := pattern(700_000)
	for range 30 {
		write(t, f, Write{Ino: 1, Handle: 1, Append: true, Data: line})
	}
	require.NoError(t, f.Flush(t.Context(), 1))
	require.Len(t, c.read(1), 30*len(line))
	require.Len(t, c.batches, 3, "11 appends in each of the first two")
	for _, b := range c.batches {
		require.True(t, b.Append)
	}
}

// Writes of different users are different commands, and a write that removes set-id bits stays one.
func TestUsersAndSetIDBits(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	write(t, f, Write{Ino: 1, Handle: 1, Data: []byte("a")})
	write(t, f, Write{Ino: 1, Handle: 1, Offset: 1, Data: []byte("b"), KillSetID: true})
	write(t, f, Write{Ino: 1, Handle: 2, Offset: 2, Data: []byte("c"), Cred: posix.Cred{UID: 7}})
	require.NoError(t, f.Flush(t.Context(), 1))
	require.Len(t, c.batches, 2)
	require.True(t, c.batches[0].KillSetID)
	require.EqualValues(t, 7, c.batches[1].Cred.UID)
	require.False(t, c.batches[1].KillSetID)
}

func TestEachHandleIsToldOfALossOnce(t *testing.T) {
	for name, c := range map[string]*cluster{"write": {fail: posix.ENOSPC}, "block": {noStage: posix.ENOSPC}} {
		t.Run(name, func(t *testing.T) {
			f := filesOf(t, c, never, 64<<20)
			f.Open(1, 1)
			f.Open(1, 2)
			write(t, f, Write{Ino: 1, Handle: 1, Data: pattern(3 << 20)})
			require.ErrorIs(t, f.FlushHandle(t.Context(), 1, 1), posix.ENOSPC)
			require.NoError(t, f.FlushHandle(t.Context(), 1, 1))
			f.Open(1, 3)
			require.NoError(t, f.FlushHandle(t.Context(), 1, 3), "it was opened later")
			kept, err := f.Write(t.Context(), &Write{Ino: 1, Handle: 1, Data: []byte("x")})
			require.NoError(t, err)
			require.False(t, kept, "the next write has its own outcome")
			require.ErrorIs(t, f.FlushHandle(t.Context(), 1, 2), posix.ENOSPC)
			for handle := range uint64(3) {
				f.Release(1, handle+1)
			}
			c.mu.Lock()
			c.fail, c.noStage = nil, nil
			c.mu.Unlock()
			write(t, f, Write{Ino: 1, Handle: 4, Data: []byte("x")})
			require.NoError(t, f.FlushHandle(t.Context(), 1, 4))
			require.Zero(t, c.staged, "blocks of lost content are given up")
			require.True(t, f.budget.tryAcquire(64<<20, false))
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	c := cluster{hold: make(chan struct{})}
	f := filesOf(t, &c, never, 2<<20+2*runCost)
	write(t, f, Write{Ino: 1, Handle: 1, Data: pattern(1 << 20)})
	write(t, f, Write{Ino: 2, Handle: 2, Data: pattern(1 << 20)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Write(ctx, &Write{Ino: 3, Handle: 3, Data: []byte("x")})
	require.ErrorIs(t, err, posix.EINTR)
	kept, err := f.Write(t.Context(), &Write{Ino: 3, Handle: 3, Data: make([]byte, 3<<20)})
	require.NoError(t, err)
	require.False(t, kept, "it never fits")
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = f.Write(context.Background(), &Write{Ino: 3, Handle: 3, Data: []byte("x")})
	}()
	close(c.hold) // waiting writes are ordered without a flush
	<-written
	require.NoError(t, f.FlushAll(t.Context()))
	require.Equal(t, "x", string(c.read(3)))
}

func TestChanged(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	before := f.Mark()
	require.False(t, f.Changed(1, before))
	write(t, f, Write{Ino: 1, Handle: 1, Data: []byte("x")})
	require.True(t, f.Changed(1, f.Mark()), "it is not ordered")
	require.False(t, f.Changed(2, before))
	require.NoError(t, f.Flush(t.Context(), 1))
	require.True(t, f.Changed(1, before), "it was ordered since")
	require.False(t, f.Changed(2, before))
	require.False(t, f.Changed(1, f.Mark()))
}

// Remaining content is ordered when the mount ends, if the cluster answers in time.
func TestClose(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	write(t, f, Write{Ino: 1, Handle: 1, Data: []byte("x")})
	f.Close(t.Context())
	require.Equal(t, "x", string(c.read(1)))

	c = cluster{hold: make(chan struct{})}
	f = filesOf(t, &c, never, 64<<20)
	write(t, f, Write{Ino: 1, Handle: 1, Data: []byte("x")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Close(ctx)
}

// Many programs write, flush and close at the same time.
func TestAtTheSameTime(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, time.Millisecond, 1<<20)
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			ino := posix.Ino(1 + i%2)
			f.Open(ino, i)
			defer f.Release(ino, i)
			for n := range 200 {
				_, err := f.Write(context.Background(), &Write{Ino: ino, Handle: i, Append: true, Data: pattern(100 * (n%30 + 1))})
				if err != nil || n%10 == 0 && f.FlushHandle(context.Background(), ino, i) != nil {
					panic(err)
				}
				f.Changed(ino, f.Mark())
			}
		})
	}
	all.Wait()
	require.NoError(t, f.FlushAll(t.Context()))
	total := 0
	for n := range 200 {
		total += 100 * (n%30 + 1)
	}
	require.Len(t, c.read(1), 4*total)
	require.Len(t, c.read(2), 4*total)
	require.Empty(t, f.files)
}

// Writes that do not follow each other cost more memory than their content. A file has few batches that wait.
func TestScatteredWritesAreBounded(t *testing.T) {
	c := cluster{hold: make(chan struct{})}
	f := filesOf(t, &c, never, 40*runCost)
	kept := 0
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for i := range uint64(1000) {
		if ok, err := f.Write(ctx, &Write{Ino: posix.Ino(1 + i), Handle: i, Data: []byte("x")}); err != nil || !ok {
			require.ErrorIs(t, err, posix.EINTR)
			break
		}
		kept++
	}
	require.Less(t, kept, 41)
	close(c.hold)

	c2 := cluster{hold: make(chan struct{})}
	f = filesOf(t, &c2, never, 64<<20)
	for i := range uint64(maxSealed + 1) {
		write(t, f, Write{Ino: 1, Handle: 1, Offset: 2 * i, Data: []byte("x")})
	}
	ok, err := f.Write(t.Context(), &Write{Ino: 1, Handle: 1, Offset: 1 << 20, Data: []byte("x")})
	require.NoError(t, err)
	require.False(t, ok)
	write(t, f, Write{Ino: 2, Handle: 2, Data: []byte("x")})
	close(c2.hold)
}

// silent is a Store whose servers do not answer.
type silent struct{ asked *atomic.Int32 }

func (s silent) Stage(context.Context, posix.Ino, *block.Draft) (Staged, error) {
	s.asked.Add(1)
	return nil, posix.ETIMEDOUT
}

func (s silent) IsQuick(posix.Ino) bool { return false }

func (s silent) Write(context.Context, *Batch) error {
	s.asked.Add(1)
	return posix.ETIMEDOUT
}

// Batches do not wait for servers one after the other.
func TestOneTimeoutForAll(t *testing.T) {
	s := silent{&atomic.Int32{}}
	f := filesOf(t, &cluster{}, never, 64<<20)
	f.cfg.Store = s
	require.True(t, f.budget.tryAcquire(20*(4096+runCost), false))
	at := f.lock(1)
	for i := range uint64(20) { // of which all but the last are sealed before the first is ordered
		_, ok := at.take(&Write{Ino: 1, Handle: 1, Offset: 8192 * i, Data: make([]byte, 4096)})
		require.True(t, ok)
	}
	at.mu.Unlock()
	require.NoError(t, f.Flush(t.Context(), 1))
	require.EqualValues(t, 1, s.asked.Load())
	require.True(t, f.TakeUnreportedLosses())
	require.False(t, f.TakeUnreportedLosses())

	s.asked.Store(0)
	for i := range uint64(32) { // blocks that are stored at once
		_, err := f.Write(t.Context(), &Write{Ino: 2, Handle: 2, Offset: i << 20, Data: make([]byte, 1<<20)})
		require.NoError(t, err)
	}
	require.ErrorIs(t, f.FlushHandle(t.Context(), 2, 2), posix.ETIMEDOUT)
	require.LessOrEqual(t, s.asked.Load(), int32(maxStaging))
	require.False(t, f.TakeUnreportedLosses(), "the program has the error")
}

// Programs may write while the mount ends.
func TestCloseWhileProgramsWrite(t *testing.T) {
	for range 50 {
		f := filesOf(t, &cluster{}, time.Millisecond, 1<<20)
		var all sync.WaitGroup
		var end atomic.Bool
		begun := make(chan struct{}, 4)
		for i := range uint64(4) {
			all.Go(func() {
				for n := 0; !end.Load(); n++ {
					if n == 10 {
						begun <- struct{}{}
					}
					f.Open(posix.Ino(i), i)
					_, _ = f.Write(context.Background(), &Write{Ino: posix.Ino(i), Handle: i, Data: []byte("x")})
					_ = f.FlushHandle(context.Background(), posix.Ino(i), i)
					f.Release(posix.Ino(i), i)
				}
			})
		}
		for range 4 {
			<-begun
		}
		f.Close(t.Context())
		kept, err := f.Write(t.Context(), &Write{Ino: 9, Handle: 9, Data: []byte("x")})
		require.NoError(t, err)
		require.False(t, kept)
		end.Store(true)
		all.Wait()
	}
}

// A duplicate of a descriptor that is closed does not take the error from fsync.
func TestCloseOfADuplicateTellsNobody(t *testing.T) {
	c := cluster{fail: posix.ENOSPC}
	f := filesOf(t, &c, never, 64<<20)
	f.Open(1, 1)
	f.Open(1, 2)
	write(t, f, Write{Ino: 1, Handle: 1, Data: []byte("x")})
	require.ErrorIs(t, f.FlushDescriptor(t.Context(), 1, 1), posix.ENOSPC)
	require.ErrorIs(t, f.FlushDescriptor(t.Context(), 1, 1), posix.ENOSPC)
	var lost []uint64
	f.Unreported(func(_ posix.Ino, handle uint64, err error) {
		require.ErrorIs(t, err, posix.ENOSPC)
		lost = append(lost, handle)
	})
	require.ElementsMatch(t, []uint64{1, 2}, lost)
	require.ErrorIs(t, f.FlushHandle(t.Context(), 1, 1), posix.ENOSPC)
	require.NoError(t, f.FlushHandle(t.Context(), 1, 1))
	require.NoError(t, f.FlushDescriptor(t.Context(), 1, 1))

	next := filesOf(t, &cluster{}, never, 64<<20)
	next.Adopt(1, 2, posix.ENOSPC)
	require.NoError(t, next.FlushHandle(t.Context(), 1, 3), "it was told before, or lost nothing")
	require.ErrorIs(t, next.FlushHandle(t.Context(), 1, 2), posix.ENOSPC)
	require.NoError(t, next.FlushHandle(t.Context(), 1, 2))
}
