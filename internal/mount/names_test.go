package mount

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestHardLinksAndRename(t *testing.T) {
	m := mountHere(t)
	m.write(t, "a", "A")
	require.NoError(t, os.Link(m.path("a"), m.path("b")))
	require.EqualValues(t, 2, m.stat(t, "a").Nlink)
	require.NoError(t, os.Remove(m.path("a")))
	require.EqualValues(t, 1, m.stat(t, "b").Nlink, "at once through the other name")
	m.write(t, "c", "C")
	require.NoError(t, os.Link(m.path("c"), m.path("d")))
	require.NoError(t, os.Rename(m.path("b"), m.path("c")))
	require.EqualValues(t, 1, m.stat(t, "d").Nlink, "rename replaced its other name")
	require.Equal(t, "A", m.read(t, "c"))
	rename := func(from, to string, flags uint) error {
		return unix.Renameat2(unix.AT_FDCWD, m.path(from), unix.AT_FDCWD, m.path(to), flags)
	}
	require.ErrorIs(t, rename("c", "d", unix.RENAME_NOREPLACE), unix.EEXIST)
	require.NoError(t, rename("c", "d", unix.RENAME_EXCHANGE))
	require.Equal(t, "A", m.read(t, "d"))
	require.Equal(t, "C", m.read(t, "c"))
	number := m.stat(t, "c").Ino
	require.NoError(t, rename("c", "us-east-1/c", 0))
	require.NoError(t, os.Link(m.path("us-east-1/c"), m.path("e")))
	require.Equal(t, "C", m.read(t, "e"))
	require.Equal(t, number, m.stat(t, "us-east-1/c").Ino)
	require.EqualValues(t, 2, m.stat(t, "e").Nlink)
}

func TestLargeDirectory(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, os.Mkdir(m.path("us-east-1/d"), 0o755))
	dir, err := m.client.Lookup(t.Context(), m.Plan.Partitions[2].Root(), "d")
	require.NoError(t, err)
	const count = 10_000
	for i := range count {
		_, err := m.client.Mknod(t.Context(), posix.Cred{}, client.Name{Dir: dir.Ino, Name: fmt.Sprintf("%05d", i)}, posix.TypeRegular|0o644, 0)
		require.NoError(t, err)
	}
	require.Len(t, m.names(t, "us-east-1/d"), count)
	before := m.Calls(m.Processes(2, "us-east-1")[0])
	entries, err := os.ReadDir(m.path("us-east-1/d")) // with type, sorted
	require.NoError(t, err)
	require.Equal(t, "09999", entries[count-1].Name())
	require.Less(t, m.Calls(m.Processes(2, "us-east-1")[0])-before, 3*count/pageEntries+10, "pages, not requests of the kernel")

	// Remove while reading, as rm -r does.
	d, err := os.Open(m.path("us-east-1/d"))
	require.NoError(t, err)
	defer d.Close()
	for {
		names, err := d.Readdirnames(100)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		for _, name := range names {
			require.NoError(t, os.Remove(m.path("us-east-1/d/"+name)))
		}
	}
	require.Empty(t, m.names(t, "us-east-1/d"))
	require.NoError(t, os.Remove(m.path("us-east-1/d")))
}

func (m *mounted) names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(m.path(dir))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names
}

// A program that renames each name that it reads comes to an end: names that are added meanwhile are not
// read.
func TestRenamesWhileReading(t *testing.T) {
	const files = 1500 // more than a page
	m := mountOf(t, clienttest.New(t, spec, time.Minute))
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	for i := range files {
		m.write(t, fmt.Sprint("d/old", i), "")
	}
	dir, err := os.Open(m.path("d"))
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	for round := range 2 { // the second one after a rewind
		for read := 0; ; {
			names, err := dir.Readdirnames(50)
			if errors.Is(err, io.EOF) {
				require.Equal(t, files, read)
				break
			}
			require.NoError(t, err)
			read += len(names)
			require.LessOrEqual(t, read, files)
			for i, name := range names {
				require.NoError(t, os.Rename(m.path("d/"+name), m.path(fmt.Sprint("d/new", round, "-", read, "-", i))))
			}
		}
		_, err := dir.Seek(0, io.SeekStart)
		require.NoError(t, err)
	}
}

// A listing does not query the partitions of the listed inodes.
func TestListingNeedsNoOtherPartition(t *testing.T) {
	m := mountHere(t)
	m.Fail(clienttest.Silent, m.Processes(2, "us-east-1")...)
	defer m.Fail(clienttest.None, m.Processes(2, "us-east-1")...)
	require.Equal(t, []string{"us-east-1", "us-west-2"}, m.names(t, ""))
}
