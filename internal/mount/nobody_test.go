package mount

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const nobody = 65534

// asNobody runs do on a separate thread without privileges.
func asNobody(t *testing.T, do func() error) {
	t.Helper()
	require.NoError(t, runAsNobody(do))
}

func asNobodyFails(t *testing.T, want error, do func() error) {
	t.Helper()
	require.ErrorIs(t, runAsNobody(do), want)
}

func runAsNobody(do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setfsgid(nobody); err != nil {
			result <- err
			return
		}
		if err := unix.Setfsuid(nobody); err != nil {
			result <- err
			return
		}
		result <- do()
	}()
	return <-result
}
