package behind

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threads records the thread of each batch.
type threads struct {
	*cluster
	of []int
}

func (s *threads) Write(ctx context.Context, b *Batch) error {
	err := s.cluster.Write(ctx, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = append(s.of, unix.Gettid())
	return err
}

// A small batch is ordered by the caller that needs it if that is quick, and never before an earlier batch.
func TestOrderHere(t *testing.T) {
	runtime.LockOSThread() // no other goroutine runs on this thread
	defer runtime.UnlockOSThread()
	s := &threads{cluster: &cluster{}}
	f := filesOf(t, s.cluster, never, 64<<20)
	f.cfg.Store = s
	flushed := func(from int, size int) (here bool) {
		write(t, f, Write{Ino: 1, Handle: 1, Offset: uint64(from), Data: pattern(size)})
		require.NoError(t, f.FlushDescriptor(t.Context(), 1, 1))
		return s.of[len(s.of)-1] == unix.Gettid()
	}
	f.Open(1, 1)
	require.False(t, flushed(0, 100), "it is not quick")
	s.setQuick(true)
	require.True(t, flushed(100, 100))
	require.False(t, flushed(200, blockSize), "it has a block that is being stored")

	s.hold = make(chan struct{})
	write(t, f, Write{Ino: 1, Handle: 1, Offset: 10 << 20, Data: pattern(100)})
	write(t, f, Write{Ino: 1, Handle: 1, Offset: 20 << 20, Data: pattern(100)}) // seals the batch before
	close(s.hold)
	require.NoError(t, f.Flush(t.Context(), 1))
	require.EqualValues(t, 20<<20, s.batches[len(s.batches)-1].Offset)
	require.Zero(t, s.overlaps)
	require.True(t, flushed(30<<20, 100))
	s.fail = unix.EIO
	write(t, f, Write{Ino: 1, Handle: 1, Offset: 0, Data: pattern(100)})
	require.ErrorIs(t, f.FlushDescriptor(t.Context(), 1, 1), unix.EIO)
}
