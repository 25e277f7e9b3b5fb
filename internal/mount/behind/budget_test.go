package behind

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/test/bubble"
)

// hungFar is a Store in which operations on far files hang until their timeout.
type hungFar struct {
	*cluster
}

const farTimeout = 30 * time.Second

func hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(farTimeout):
		return posix.ETIMEDOUT
	}
}

func isFar(ino posix.Ino) bool { return ino >= 100 }

func (h hungFar) Stage(ctx context.Context, ino posix.Ino, data *block.Draft) (Staged, error) {
	if isFar(ino) {
		return nil, hang(ctx)
	}
	return h.cluster.Stage(ctx, ino, data)
}

func (h hungFar) Write(ctx context.Context, b *Batch) error {
	if isFar(b.Ino) {
		return hang(ctx)
	}
	return h.cluster.Write(ctx, b)
}

// While the servers of a far region do not answer, programs fill the far files' part of the memory and of the
// blocks that are being stored. Near files have the rest.
func TestFarContentLeavesRoom(t *testing.T) {
	c := &cluster{content: map[posix.Ino][]byte{}}
	f := New(Config{Store: hungFar{c}, Delay: time.Hour, Memory: 64 << 20, IsFar: isFar, Logger: slog.New(slog.DiscardHandler), Abandon: context.Canceled})
	far, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for i := uint64(0); ; i++ {
			if _, err := f.Write(far, &Write{Ino: 100 + posix.Ino(i%2), Handle: 100, Offset: i / 2 << 20, Data: make([]byte, 1<<20)}); err != nil {
				ended <- err
				return
			}
		}
	}()
	full := func() bool {
		free := f.budget.tryAcquire(2<<20, true)
		if free {
			f.budget.release(2<<20, true)
		}
		return !free
	}
	require.Eventually(t, full, 10*time.Second, time.Millisecond)
	near, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range uint64(100) {
		kept, err := f.Write(near, &Write{Ino: 1, Handle: 1, Offset: i << 20, Data: make([]byte, 1<<20)})
		require.NoError(t, err)
		require.True(t, kept)
	}
	require.NoError(t, f.Flush(t.Context(), 1))
	require.Len(t, c.read(1), 100<<20)
	giveUp()
	require.ErrorIs(t, <-ended, posix.EINTR)
	gone, give := context.WithCancel(t.Context())
	give()
	f.Close(gone)
	require.True(t, f.budget.tryAcquire(32<<20, true), "no memory is held")
	require.True(t, f.budget.tryAcquire(32<<20, false))
}

// FlushMoving waits for far files only until nothing of them was ordered for the given time.
func TestFlushMovingLeavesStuckFilesOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &cluster{content: map[posix.Ino][]byte{}}
		f := New(Config{Store: hungFar{c}, Delay: time.Hour, Memory: 64 << 20, IsFar: isFar, Logger: slog.New(slog.DiscardHandler), Abandon: context.Canceled})
		const patience = 5 * time.Second
		flush := func() time.Duration {
			write(t, f, Write{Ino: 1, Handle: 1, Append: true, Data: []byte("near")})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			_ = f.FlushMoving(ctx, patience)
			return time.Since(began)
		}
		require.Zero(t, flush())
		write(t, f, Write{Ino: 100, Handle: 100, Append: true, Data: []byte("far")})
		require.Equal(t, patience, flush())
		write(t, f, Write{Ino: 100, Handle: 100, Append: true, Data: []byte("more")})
		time.Sleep(time.Millisecond) // fake time
		require.Zero(t, flush())
		for ino := range posix.Ino(3) { // files of the same servers
			write(t, f, Write{Ino: 101 + ino, Handle: 101, Append: true, Data: []byte("far")})
			require.Zero(t, flush())
		}
		require.Len(t, c.read(1), 6*len("near"))
		require.NoError(t, f.FlushAll(t.Context()), "the far content is lost")
		time.Sleep(patience) // fake time
		write(t, f, Write{Ino: 200, Handle: 200, Append: true, Data: []byte("far")})
		require.Zero(t, flush())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.Close(ctx)
	})
}
