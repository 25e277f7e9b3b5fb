package transport

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/stretchr/testify/require"
)

func echo(_ context.Context, request []byte) ([]byte, error) {
	return append([]byte("echo "), request...), nil
}

// callers: process 1 calls process 2 at another address, and process 4 calls process 1 at the same address.
var callers = []struct{ from, to multicast.ProcessID }{{1, 2}, {4, 1}}

func TestCall(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		for _, c := range callers {
			a, b := w.endpoint(c.from), w.endpoint(c.to)
			_, err := a.Call(t.Context(), c.to, nil)
			require.ErrorIs(t, err, ErrUnreachable, "it does not serve yet")
			b.Serve(echo)
			reply, err := a.Call(t.Context(), c.to, []byte("hello"))
			require.NoError(t, err)
			require.Equal(t, "echo hello", string(reply))
			block := bytes.Repeat([]byte{7}, 1<<20)
			reply, err = a.Call(t.Context(), c.to, block)
			require.NoError(t, err)
			require.Equal(t, block, reply[5:])
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
	})
}

func TestCallErrors(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		for _, c := range callers {
			a, b := w.endpoint(c.from), w.endpoint(c.to)
			b.Serve(func(_ context.Context, request []byte) ([]byte, error) {
				if len(request) > 0 {
					return make([]byte, MaxCall+1), nil
				}
				return nil, errors.New(strings.Repeat("no", maxErrorText))
			})
			_, err := a.Call(t.Context(), unknownProcess, nil)
			require.ErrorIs(t, err, ErrUnreachable)
			_, err = a.Call(t.Context(), 33, nil)
			require.ErrorIs(t, err, ErrUnreachable)
			var remote *RemoteError
			_, err = a.Call(t.Context(), c.to, nil)
			require.ErrorAs(t, err, &remote)
			require.Len(t, remote.Text, maxErrorText)
			_, err = a.Call(t.Context(), c.to, []byte{1})
			require.ErrorAs(t, err, &remote)
			require.ErrorContains(t, err, "longer than")
			_, err = a.Call(t.Context(), c.to, make([]byte, MaxCall+1))
			require.ErrorContains(t, err, "cannot be sent")
			require.NoError(t, b.Close())
			_, err = a.Call(t.Context(), c.to, nil)
			require.ErrorIs(t, err, ErrUnreachable)
			require.NoError(t, a.Close())
			_, err = a.Call(t.Context(), c.to, nil)
			require.ErrorIs(t, err, ErrClosed)
		}
	})
}

// A call ends at its deadline, or when it is cancelled, also if the handler does not heed its context.
func TestCallGivesUp(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		for _, c := range callers {
			a, b := w.endpoint(c.from), w.endpoint(c.to)
			release := make(chan struct{})
			var cancelled sync.WaitGroup
			cancelled.Add(2)
			b.Serve(func(ctx context.Context, _ []byte) ([]byte, error) {
				<-ctx.Done()
				cancelled.Done()
				<-release
				return nil, ctx.Err()
			})
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := a.Call(ctx, c.to, nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(start))
			cancel()

			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err = a.Call(ctx, c.to, nil)
			require.ErrorIs(t, err, context.Canceled)
			cancelled.Wait()
			close(release)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
	})
}

// TestCloseWaitsForHandlers: the contexts of handlers end, and no handler runs after Close; callers get an
// error that lets them try another process.
func TestCloseWaitsForHandlers(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		for _, c := range callers {
			a, b := w.endpoint(c.from), w.endpoint(c.to)
			running := make(chan struct{})
			ended := false
			b.Serve(func(ctx context.Context, _ []byte) ([]byte, error) {
				close(running)
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = true
				return nil, ctx.Err()
			})
			failed := make(chan error)
			go func() {
				_, err := a.Call(t.Context(), c.to, nil)
				failed <- err
			}()
			<-running
			require.NoError(t, b.Close())
			require.True(t, ended)
			require.ErrorIs(t, <-failed, ErrUnreachable)
			require.NoError(t, a.Close())
		}
	})
}

func TestClosingTheCallerEndsItsCalls(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		a, b := w.endpoint(1), w.endpoint(2)
		b.Serve(func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		failed := make(chan error)
		go func() {
			_, err := a.Call(t.Context(), 2, nil)
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, a.Close())
		require.ErrorIs(t, <-failed, ErrClosed)
		require.NoError(t, b.Close())
	})
}

func TestCallsGoOnAfterBrokenConnections(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		a, b := w.endpoint(1), w.endpoint(2)
		b.Serve(echo)
		for range 20 {
			w.disturb()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			for {
				_, err := a.Call(ctx, 2, []byte("x"))
				if err == nil {
					break
				}
				require.ErrorIs(t, err, ErrUnreachable)
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
		}
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}
