package mount

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// direct returns a file system that the test calls in the kernel's place.
func direct(t *testing.T) (*fileSystem, *clienttest.Network) {
	n := clienttest.New(t, spec, time.Minute)
	f := newFileSystem(&Config{Client: n.Client(t, "us-west-2"), CacheTime: time.Hour})
	return f, n
}

func header(i posix.Ino) fuse.InHeader {
	return fuse.InHeader{NodeId: uint64(i), Caller: fuse.Caller{Pid: 5}}
}

func (f *fileSystem) make(t *testing.T, name string) posix.Ino {
	a, err := f.client.Mknod(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: name}, posix.TypeRegular|0o600, 0)
	require.NoError(t, err)
	return a.Ino
}

// A create that finds a file must not open it: its permissions were not checked.
func TestCreateOpensNothingThatIsThere(t *testing.T) {
	f, _ := direct(t)
	f.make(t, "f")
	in := &fuse.CreateIn{InHeader: header(posix.Root), Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o644}
	require.Equal(t, fuse.Status(unix.ESTALE), f.Create(nil, in, "f", &fuse.CreateOut{}))
	in.Flags |= unix.O_EXCL
	require.Equal(t, fuse.Status(unix.EEXIST), f.Create(nil, in, "f", &fuse.CreateOut{}))
}

func TestOpenOfWhatWasUnlinked(t *testing.T) {
	f, n := direct(t)
	i := f.make(t, "f")
	in := &fuse.OpenIn{InHeader: header(i), Flags: unix.O_RDONLY}
	other := n.Client(t, "us-east-1")
	other.Observe(f.client.Proofs())
	require.NoError(t, other.Unlink(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "f"}))
	f.client.Observe(other.Proofs())
	require.Equal(t, fuse.Status(unix.ESTALE), f.Open(nil, in, &fuse.OpenOut{}), "look again")
	require.Equal(t, fuse.OK, f.Open(nil, in, &fuse.OpenOut{}), "the retry is given what there is")
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(i)})
}

// plus reads a directory as the kernel does.
func (f *fileSystem) plus(t *testing.T, handle uint64) map[string]fuse.EntryOut {
	found := map[string]fuse.EntryOut{}
	for cookie := uint64(0); ; {
		list := fuse.NewDirEntryList(make([]byte, 4096), cookie)
		require.Equal(t, fuse.OK, f.ReadDirPlus(nil, &fuse.ReadIn{InHeader: header(posix.Root), Fh: handle, Offset: cookie}, list))
		entries, nodes, err := fuse.ParseDirLookupEntries(list.Bytes())
		require.NoError(t, err)
		if len(entries) == 0 {
			return found
		}
		for i, e := range entries {
			found[e.Name] = nodes[i]
			cookie = e.Off
		}
	}
}

func TestReadDirPlus(t *testing.T) {
	f, n := direct(t)
	i := f.make(t, "f")
	var out fuse.OpenOut
	require.Equal(t, fuse.OK, f.OpenDir(nil, &fuse.OpenIn{InHeader: header(posix.Root)}, &out))
	found := f.plus(t, out.Fh)
	require.Equal(t, uint64(i), found["f"].NodeId)
	require.NotZero(t, found["f"].Mode)
	for _, name := range []string{".", "..", "us-west-2", "us-east-1"} {
		require.Contains(t, found, name)
		require.Zero(t, found[name].NodeId, "%s is looked up when somebody asks", name)
	}
	replicas := n.Processes(0, "us-west-2")
	before := n.Calls(replicas...)
	require.Contains(t, f.plus(t, out.Fh), "f")
	require.Equal(t, before, n.Calls(replicas...), "the page is used again")
	require.NoError(t, f.client.Unlink(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "f"}))
	require.NotContains(t, f.plus(t, out.Fh), "f", "though the page is not an hour old")
	f.ReleaseDir(&fuse.ReleaseIn{InHeader: header(posix.Root), Fh: out.Fh})
	require.Equal(t, fuse.EBADF, f.ReadDir(nil, &fuse.ReadIn{InHeader: header(posix.Root), Fh: out.Fh}, nil))
}
