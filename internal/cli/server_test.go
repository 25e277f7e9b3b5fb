package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
)

// TestServerWithoutRDMA: a server of a cluster with RDMA does not start without it, and the error names the
// key of the cluster file. Other commands accept the file.
func TestServerWithoutRDMA(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	run(t, "init", "--local-order", "tram", path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	verbs := strings.Replace(string(text), "fabric: auto}\n", "fabric: verbs}\n", 1)
	require.Contains(t, verbs, "multicast: {local: tram, fabric: verbs}\n")
	require.NoError(t, os.WriteFile(path, []byte(verbs), 0o644))
	require.Contains(t, run(t, "init", "--check", path), "is right")
	says := fails(t, command.ExitInput, "server", "us-west-2a", "--config", path, "--rdma-device", "none0")
	require.Contains(t, says, "multicast: fabric: verbs: ")
}
