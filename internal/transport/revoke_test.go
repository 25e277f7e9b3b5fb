package transport

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/logged"
)

// The revocation of a certificate ends the calls in flight of its client within 5 s, at both ends, over TCP
// and through shared memory, and refuses new ones. The calls of others go on.
func TestRevokedCallsEnd(t *testing.T) {
	for name, shared := range map[string]bool{FabricTCP: false, FabricShm: true} {
		t.Run(name, func(t *testing.T) {
			var log logged.Text
			certs := newAuthority(t, "prod")
			own := certs.server("n1")
			s := listening(t, own, &log)
			began, ended, finish := make(chan struct{}, 2), make(chan struct{}, 1), make(chan struct{})
			s.Endpoint(2).Serve(func(ctx context.Context, request []byte) ([]byte, error) {
				began <- struct{}{}
				select {
				case <-ctx.Done():
					ended <- struct{}{}
				case <-finish:
				}
				return request, ctx.Err()
			})
			dial := func(who string) *Client {
				d := Dial(Config{
					Credentials: certs.client(who, posix.Everybody()), SharedMemory: shared, Logger: log.Logger(),
					Resolve: func(multicast.ProcessID) (string, bool) { return s.Address(), true },
				})
				t.Cleanup(func() { require.NoError(t, d.Close()) })
				_, err := d.Call(t.Context(), 1, []byte("hello"))
				require.NoError(t, err)
				return d
			}
			stolen, good := dial("stolen"), dial("good")
			through, others := sharedConns(s)
			require.Equal(t, shared, through == 2, "%d and %d connections", through, others)
			answers := map[*Client]chan error{stolen: make(chan error, 1), good: make(chan error, 1)}
			for d, answer := range answers {
				go func() {
					_, err := d.Call(t.Context(), 2, []byte("wait"))
					answer <- err
				}()
				<-began
			}

			own.SetRevoked([]identity.Revocation{{Role: identity.Client, Name: "stolen", At: time.Now().Add(time.Minute)}})
			s.Recheck()
			limit := time.After(5 * time.Second)
			select {
			case err := <-answers[stolen]:
				require.ErrorIs(t, err, ErrUnreachable)
			case <-limit:
				t.Fatal("the caller still waits after 5 s")
			}
			select {
			case <-ended:
			case <-limit:
				t.Fatal("the handler still runs after 5 s")
			}
			_, err := stolen.Call(t.Context(), 1, []byte("hello"))
			require.ErrorIs(t, err, ErrUnreachable)
			close(finish)
			require.NoError(t, <-answers[good])
			_, err = good.Call(t.Context(), 1, []byte("hello"))
			require.NoError(t, err)
		})
	}
}
