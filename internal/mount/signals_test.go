package mount

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestEndsProcess(t *testing.T) {
	bit := func(s unix.Signal) uint64 { return 1 << (s - 1) }
	all := ^uint64(0)
	require.False(t, endsProcess(0, 0, 0))
	require.True(t, endsProcess(bit(unix.SIGKILL), all, all))
	require.True(t, endsProcess(bit(unix.SIGTERM), 0, 0))
	require.False(t, endsProcess(bit(unix.SIGTERM), bit(unix.SIGTERM), 0), "blocked")
	require.False(t, endsProcess(bit(unix.SIGALRM), 0, bit(unix.SIGALRM)), "handled")
	require.False(t, endsProcess(bit(unix.SIGCHLD)|bit(unix.SIGWINCH), 0, 0))
	require.True(t, endsProcess(bit(unix.SIGCHLD)|bit(unix.SIGQUIT), 0, bit(unix.SIGCHLD)))
}

func TestFateOf(t *testing.T) {
	require.Equal(t, unknown, fateOf(0))
	require.Equal(t, living, fateOf(uint32(os.Getpid())))
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	require.Equal(t, living, fateOf(uint32(child.Process.Pid)))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Equal(t, doomed, fateOf(uint32(child.Process.Pid)))
}
