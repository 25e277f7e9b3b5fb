package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/command"
)

// A wait fails after its timeout, and its process ends: the kernel gets an answer to the request of a killed
// process at once.
func TestWaitKeepsItsTimeout(t *testing.T) {
	if os.Getenv("GLOBALFS_TEST_WAIT") != "" { // the process that waits
		os.Exit(Main([]string{"wait", "--timeout", "200ms", os.Getenv("GLOBALFS_TEST_WAIT"), os.Getenv("GLOBALFS_TEST_DIR")}, os.Stdout, os.Stderr))
	}
	dir, n := mountHere(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	token := strings.TrimSpace(run(t, "token", dir))
	for _, region := range n.Plan.Regions {
		n.Fail(clienttest.Silent, n.Processes(0, region)...)
		n.Fail(clienttest.Silent, n.Processes(1, region)...)
	}
	waiting := exec.Command(os.Args[0], "-test.run=^TestWaitKeepsItsTimeout$")
	waiting.Env = append(os.Environ(), "GLOBALFS_TEST_WAIT="+token, "GLOBALFS_TEST_DIR="+dir)
	began := time.Now()
	out, err := waiting.CombinedOutput()
	t.Logf("it took %v", time.Since(began))
	require.Error(t, err)
	require.Equal(t, command.ExitFailure, waiting.ProcessState.ExitCode(), "%s", out)
	require.Contains(t, string(out), "not there within 200ms")
	require.Less(t, time.Since(began), 25*time.Second, "the mount itself waits for 30 s")
	for _, region := range n.Plan.Regions {
		n.Fail(clienttest.None, n.Processes(0, region)...)
		n.Fail(clienttest.None, n.Processes(1, region)...)
	}
	require.NoError(t, syscall.Access(dir, 4))
}
