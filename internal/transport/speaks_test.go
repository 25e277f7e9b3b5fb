package transport

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// A client detects the protocol of a server, also of a server that requires a certificate.
func TestSpeaks(t *testing.T) {
	resolve := func(multicast.ProcessID) (string, bool) { return "", false }
	listen := func(cfg Config) string {
		cfg.Address, cfg.Resolve = "127.0.0.1:0", resolve
		s, err := Listen(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s.Address()
	}
	require.Equal(t, Plain, Speaks(t.Context(), listen(Config{})))
	require.Equal(t, TLS, Speaks(t.Context(), listen(Config{Credentials: newAuthority(t, "c").server("n1")})))

	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 mail.example.com ESMTP\r\n"))
			_ = c.Close()
		}
	}()
	require.Equal(t, Unknown, Speaks(t.Context(), other.Addr().String()))
	require.NoError(t, other.Close())
	require.Equal(t, Unknown, Speaks(t.Context(), other.Addr().String()), "nobody listens")

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Equal(t, Unknown, Speaks(ctx, silent.Addr().String()), "it ends with its context")
}
