package cluster

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// attacker returns a client with the certificate of a machine that acts for user 1000 only, without a mount.
func (c *Cluster) attacker(t *testing.T) *attach.Client {
	t.Helper()
	access, err := daemon.Connect(t.Context(), daemon.AccessConfig{
		Servers: []string{c.Address("westa")}, Certificates: identity.FilesIn(c.Certs(), identity.Client, "bound"), Timeout: 30 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	via, err := access.Client(daemon.ClientConfig{Region: "west", CacheBytes: 1 << 20, Timeout: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, via.Close()) })
	return via
}

// inode returns the number of an inode.
func inode(t *testing.T, path string) posix.Ino {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return posix.Ino(info.Sys().(*syscall.Stat_t).Ino)
}

// TestGuessedInodeNumbers: a machine with a narrow certificate cannot use the number of an inode that no
// answer has contained: neither of an inode in a private directory, nor one of a range of guessed numbers.
// Its mount still works after changes of the keys, restarts of all servers, and a take-over.
func TestGuessedInodeNumbers(t *testing.T) {
	t.Parallel()
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2})
	_, err := c.Run(t.Context(), "certs", "client", "bound", "--dir", c.Certs(), "--uids", "1000", "--gids", "1000")
	require.NoError(t, err)
	west := filepath.Join(c.mountWith(t, c.only(t, "client-mount")), "west")
	out, err := shell(west, 0, "mkdir -m 777 open private; umask 0; mkdir private/list; head -c 100000 /dev/urandom > private/data; echo name > private/list/name; chmod 777 open; chmod 700 private; sync private")
	require.NoError(t, err, out)
	private := filepath.Join(west, "private")

	t.Run("guesses", func(t *testing.T) {
		via, user := c.attacker(t), posix.Cred{UID: 1000, GID: 1000}
		dir, list, data := inode(t, private), inode(t, filepath.Join(private, "list")), inode(t, filepath.Join(private, "data"))
		for name, guess := range map[string]func() error{
			"stat": func() error { _, err := via.GetAttr(t.Context(), data); return err },
			"read": func() error { _, err := via.Read(t.Context(), data, make([]byte, 9), 0); return err },
			"open": func() error { _, err := via.Open(t.Context(), data); return err },
			"write": func() error {
				_, err := via.Write(t.Context(), user, client.Write{Ino: data, Data: []byte("x")})
				return err
			},
			"lock":    func() error { return via.Lock(t.Context(), client.LockRequest{Ino: data, Flock: true}) },
			"list":    func() error { _, _, err := via.ReadDir(t.Context(), list, 0, 9); return err },
			"search":  func() error { _, err := via.Lookup(t.Context(), list, "name"); return err },
			"private": func() error { _, err := via.GetAttr(t.Context(), dir); return err },
			"create": func() error {
				_, err := via.Create(t.Context(), user, client.Name{Dir: list, Name: "new"}, 0o600, 0)
				return err
			},
			"xattr": func() error { return via.SetXattr(t.Context(), user, data, "user.a", nil, 0) },
			"cut":   func() error { _, err := via.SetAttr(t.Context(), user, data, meta.SetSize, posix.Attr{}); return err },
		} {
			require.Equal(t, posix.ESTALE, guess(), name)
		}
		for counter := uint64(2); counter < 300; counter++ {
			_, err := via.GetAttr(t.Context(), posix.MakeIno(data.Partition(), counter))
			require.Equal(t, posix.ESTALE, err, counter)
		}
		_, err := via.Lookup(t.Context(), posix.MakeIno(data.Partition(), posix.Root.Counter()), "private")
		require.NoError(t, err, "its name is in a public directory")
		_, err = via.Lookup(t.Context(), dir, "data")
		require.Equal(t, posix.EACCES, err)
		_, err = via.GetAttr(t.Context(), data)
		require.Equal(t, posix.ESTALE, err)
	})

	certs := c.only(t, "client-bound")
	mount := c.mountWith(t, certs)
	home := filepath.Join(mount, "west", "open")
	out, err = shell(home, 1000, "mkdir -p a/b; echo one > a/b/f; head -c 300000 /dev/urandom > large; ln a/b/f second; mv second third")
	require.NoError(t, err, out)
	file, err := os.OpenFile(filepath.Join(home, "a", "b", "f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	works := func(step int) {
		t.Helper()
		text := fmt.Sprintf("step %d\n", step)
		_, err := file.WriteAt([]byte(text), 0)
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		got, err := io.ReadAll(io.NewSectionReader(file, 0, 100))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		out, err := shell(home, 1000, fmt.Sprintf("cat a/b/f && cat large > copy && cmp large copy && mkdir d%d && mv copy d%d/ && rm -r d%d && ls a/b", step, step, step))
		require.NoError(t, err, out)
		require.Equal(t, text+"f\n", out)
	}
	rotate := func() {
		_, err := c.Run(t.Context(), "certs", "rotate-vector-key", "--dir", c.Certs())
		require.NoError(t, err)
	}
	works(1)
	for step := 2; step < 5; step++ { // more changes than a ticket survives
		rotate()
		for _, name := range c.Names() {
			require.NoError(t, c.Servers[name].Stop())
			require.NoError(t, c.Servers[name].Start(t.Context()))
		}
		works(step)
	}
	code, said := c.ranAs(t, "globalfs", "mount", c.Address("westa"), mount, "--certs", certs, "--region", "west", "--take-over")
	require.Zero(t, code, said)
	works(5)
	for range 2 { // what was not used in between is looked up again
		rotate()
	}
	for _, name := range c.Names() {
		require.NoError(t, c.Servers[name].Stop())
		require.NoError(t, c.Servers[name].Start(t.Context()))
	}
	out, err = shell(home, 1000, "ls -l a/b && cat third large | wc -c && stat a/b/f")
	require.NoError(t, err, out)
	require.Eventually(t, func() bool { // the next renewal of the session brings its ticket
		_, err := file.WriteAt([]byte("step 6\n"), 0)
		return err == nil && file.Sync() == nil
	}, 30*time.Second, 100*time.Millisecond)
	works(7)
}
