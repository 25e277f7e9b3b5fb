package mount

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client/clienttest"
)

// Two mounts of one tree.
func TestTwoMounts(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	a.write(t, "f", "first")
	b.client.Observe(a.client.Proofs())
	require.Equal(t, "first", b.read(t, "f"))
	keep, err := os.Open(b.path("f"))
	require.NoError(t, err)
	defer keep.Close()
	a.write(t, "f", "second, and longer")
	b.client.Observe(a.client.Proofs())
	again, err := os.Open(b.path("f"))
	require.NoError(t, err)
	defer again.Close()
	info, err := again.Stat()
	require.NoError(t, err)
	require.EqualValues(t, len("second, and longer"), info.Size(), "close to open: attributes are new")
	require.Equal(t, "second, and longer", b.read(t, "f"), "and pages")

	// The offset of an append comes after the appends of all mounts.
	fa, err := os.OpenFile(a.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer fa.Close()
	b.client.Observe(a.client.Proofs())
	fb, err := os.OpenFile(b.path("log"), os.O_APPEND|os.O_RDWR, 0)
	require.NoError(t, err)
	defer fb.Close()
	var want string
	for i := range 20 {
		for _, f := range []*os.File{fa, fb} {
			line := fmt.Sprintf("%s %d\n", f.Name()[len(f.Name())-8:], i)
			_, err := f.WriteString(line)
			require.NoError(t, err)
			require.NoError(t, f.Sync(), "it is ordered")
			want += line
		}
	}
	require.Equal(t, want, b.read(t, "log"))

	// A directory that is gone takes no file.
	require.NoError(t, os.Mkdir(a.path("d"), 0o755))
	b.client.Observe(a.client.Proofs())
	_, err = os.Stat(b.path("d"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(a.path("d")))
	b.client.Observe(a.client.Proofs())
	require.ErrorIs(t, os.WriteFile(b.path("d/f"), nil, 0o644), unix.ENOENT)

	// A file that another mount has just made is opened with its permissions, or not at all.
	_, err = os.Stat(b.path("secret"))
	require.ErrorIs(t, err, unix.ENOENT)
	require.NoError(t, os.WriteFile(a.path("secret"), []byte("s"), 0o600))
	require.NoError(t, os.Chmod(b.dir, 0o777))
	b.client.Observe(a.client.Proofs())
	asNobodyFails(t, unix.EACCES, func() error {
		f, err := os.OpenFile(b.path("secret"), os.O_CREATE|os.O_RDWR, 0o644)
		if err == nil {
			f.Close()
		}
		return err
	})
}
