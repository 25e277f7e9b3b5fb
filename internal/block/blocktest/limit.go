package blocktest

import (
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ownProcess is an environment variable of a process that runs one test.
const ownProcess = "GLOBALFS_TEST_OWN_PROCESS"

// WithFileLimit runs a test in a separate process. In it, limit sets the largest file that the process may
// write, in bytes; 0: the limit before the test. (The go command makes test processes write a file too, which
// gets large.)
func WithFileLimit(t *testing.T, test func(limit func(bytes uint64))) {
	if os.Getenv(ownProcess) == "" {
		run := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		run.Env = append(os.Environ(), ownProcess+"=1")
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	limit := func(bytes uint64) {
		l := unix.Rlimit{Cur: bytes, Max: old.Max}
		if bytes == 0 {
			l = old
		}
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &l))
	}
	defer limit(0)
	test(limit)
}

// SmallDisk mounts a file system of this size, such as "6m", until the test ends. It skips the test if
// mounting is not allowed.
func SmallDisk(t *testing.T, size string) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs to mount a tmpfs, which takes root: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}
