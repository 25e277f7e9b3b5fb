package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
)

// A used port is an error before anything starts.
func TestUsedPort(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer used.Close()
	dir := t.TempDir()
	t.Chdir(dir)
	run(t, "init", "--regions", "a", "--datacenters", "1", "--etcd", "http://127.0.0.1:1")
	run(t, "certs", "servers")
	for _, args := range [][]string{
		{"dev", "--data-dir", filepath.Join(dir, "data")},
		{"server", "aa", "--data-dir", filepath.Join(dir, "data")},
		{"mount", "127.0.0.1:1", filepath.Join(dir, "data"), "--mkdir"},
	} {
		for _, flag := range []string{"--metrics", "--pprof"} {
			require.Contains(t, fails(t, command.ExitFailure, append(args, flag, used.Addr().String())...), "another process uses the port")
		}
	}
	require.NoFileExists(t, filepath.Join(dir, "data", "registry.json"))
}

// Until the handler is set, the answer is that the service is unavailable.
func TestLaterHandler(t *testing.T) {
	var l laterHandler
	ask := func() int {
		answer := httptest.NewRecorder()
		l.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return answer.Code
	}
	require.Equal(t, http.StatusServiceUnavailable, ask())
	l.set(http.NotFoundHandler())
	require.Equal(t, http.StatusNotFound, ask())
}
