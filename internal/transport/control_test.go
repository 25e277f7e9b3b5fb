package transport

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

func TestControl(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		c := w.dial(nil)
		for _, ask := range []func(context.Context, string, []byte) ([]byte, error){
			c.CallAddress, w.servers[0].CallAddress, w.servers[1].CallAddress,
		} {
			_, err := ask(t.Context(), address(1), nil)
			require.ErrorIs(t, err, ErrUnreachable, "it does not serve yet")
		}
		w.servers[1].Control(echo)
		for _, ask := range []func(context.Context, string, []byte) ([]byte, error){
			c.CallAddress, w.servers[0].CallAddress, w.servers[1].CallAddress,
		} {
			reply, err := ask(t.Context(), address(1), []byte("hello"))
			require.NoError(t, err)
			require.Equal(t, "echo hello", string(reply))
			_, err = ask(t.Context(), address(1), make([]byte, MaxCall+1))
			require.ErrorContains(t, err, "cannot be sent")
			_, err = ask(t.Context(), address(8), nil)
			require.ErrorIs(t, err, ErrUnreachable)
			require.ErrorContains(t, err, address(8))
		}
		require.NoError(t, c.Close())
		_, err := c.CallAddress(t.Context(), address(1), nil)
		require.ErrorIs(t, err, ErrClosed)
		w.close()
		_, err = w.servers[0].CallAddress(t.Context(), address(1), nil)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// TestPeerOf: a handler gets the identity of its caller, but not for calls that the server makes itself while
// it answers.
func TestPeerOf(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		certs := newAuthority(t, "prod")
		w := newTCPWorld(t, certs.server("n1"))
		may := &posix.Authority{UIDs: []posix.IDs{{First: 1000, Last: 1999}}, GIDs: []posix.IDs{{First: 100, Last: 100}}}
		client, admin := w.dial(certs.client("web", may)), w.dial(certs.admin("boss"))
		var seen []string
		note := func(ctx context.Context) {
			text := "nobody"
			if id, ok := PeerOf(ctx); ok {
				text = id.String()
			}
			seen = append(seen, text)
		}
		answer := func(ctx context.Context, _ []byte) ([]byte, error) { note(ctx); return nil, nil }
		first := w.endpoint(1)
		first.Serve(func(ctx context.Context, _ []byte) ([]byte, error) {
			note(ctx)
			for _, next := range []multicast.ProcessID{4, 2} { // here, and elsewhere
				if _, err := first.Call(ctx, next, nil); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		w.endpoint(2).Serve(answer)
		w.endpoint(4).Serve(answer)
		w.servers[1].Control(answer)

		_, err := client.Call(t.Context(), 1, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"globalfs://prod/client/web?uids=1000-1999&gids=100", "nobody", "globalfs://prod/server/n1"}, seen)
		seen = nil
		_, err = admin.CallAddress(t.Context(), address(1), nil)
		require.NoError(t, err)
		_, err = w.servers[0].CallAddress(t.Context(), address(1), nil)
		require.NoError(t, err)
		_, err = w.servers[1].CallAddress(t.Context(), address(1), nil)
		require.NoError(t, err)
		require.Equal(t, []string{"globalfs://prod/admin/boss", "globalfs://prod/server/n1", "nobody"}, seen)
		_, ok := PeerOf(context.Background())
		require.False(t, ok)
		require.NoError(t, client.Close())
		require.NoError(t, admin.Close())
		w.close()

		plain := newTCPWorld(t, nil)
		c := plain.dial(nil)
		plain.endpoint(1).Serve(func(ctx context.Context, _ []byte) ([]byte, error) {
			id, ok := PeerOf(ctx)
			require.False(t, ok)
			require.Equal(t, identity.Identity{}, id)
			return nil, nil
		})
		_, err = c.Call(t.Context(), 1, nil)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		plain.close()
	})
}
