package mountpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindMount(t *testing.T) {
	const table = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:40 / /mnt/a\040b rw,nosuid shared:5 - fuse.globalfs globalfs rw
41 22 0:41 / /mnt/x rw - tmpfs tmpfs rw
42 41 0:42 / /mnt/x rw - fuse.globalfs globalfs rw
broken
`
	for path, want := range map[string]FileSystem{
		"/mnt/a b": {"0:40", "fuse.globalfs", "globalfs"}, "/mnt/x": {"0:42", "fuse.globalfs", "globalfs"}, "/mnt": {}, "/": {"8:1", "ext4", "/dev/sda1"},
	} {
		got, ok := findMount(table, path)
		require.Equal(t, want, got)
		require.Equal(t, want != FileSystem{}, ok)
	}
}
