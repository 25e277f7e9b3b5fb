package cluster

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mountWith mounts in the background with the certificates of a directory.
func (c *Cluster) mountWith(t *testing.T, certs string, more ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	args := append([]string{"mount", c.Address("westa"), dir, "--certs", certs, "--region", "west"}, more...)
	code, said := c.ranAs(t, "globalfs", args...)
	require.Zero(t, code, said)
	t.Cleanup(func() {
		code, said := c.ranAs(t, "globalfs", "umount", dir)
		require.Zero(t, code, said)
	})
	return dir
}

// shell runs a script in a directory as a user.
func shell(dir string, uid uint32, script string) (string, error) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// only returns a directory with the certificate of the CA and that of one process.
func (c *Cluster) only(t *testing.T, who string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"ca.pem", who + ".pem", who + "-key.pem"} {
		text, err := os.ReadFile(filepath.Join(c.Certs(), name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

// TestIntruders: the certificate of a machine limits its rights, independently of the users that its kernel
// reports.
func TestIntruders(t *testing.T) {
	c := start(t)
	certify := func(args ...string) {
		_, err := c.Run(t.Context(), append([]string{"certs"}, args...)...)
		require.NoError(t, err)
	}
	certify("client", "bound", "--dir", c.Certs(), "--uids", "1000", "--gids", "1000")
	trusted := c.mountWith(t, c.only(t, "client-mount"))
	west := filepath.Join(trusted, "west")
	require.NoError(t, os.Mkdir(filepath.Join(west, "home"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(west, "home"), 0o777|os.ModeSticky))
	out, err := shell(filepath.Join(west, "home"), 2000, "umask 077; echo secret > theirs; echo all > public; head -c 3000000 /dev/urandom > large; chmod 644 public large")
	require.NoError(t, err, out)

	t.Run("a bound machine", func(t *testing.T) {
		home := filepath.Join(c.mountWith(t, c.only(t, "client-bound")), "west", "home")
		out, err := shell(home, 1000, "echo mine > mine && cat mine public && mv mine mine2 && chmod 600 mine2")
		require.NoError(t, err, out)
		require.Equal(t, "mine\nall\n", out)
		out, err = shell(home, 1000, "cp large copy && cmp large copy && sync copy") // by rights to its blocks
		require.NoError(t, err, out)
		out, err = shell(filepath.Join(c.mountWith(t, c.only(t, "client-bound")), "west", "home"), 1000, "cmp large copy")
		require.NoError(t, err, out)
		out, err = shell(filepath.Join(west, "home"), 2000, "cmp large copy")
		require.NoError(t, err, out)
		for who, script := range map[uint32]string{
			0:    "cat theirs",        // its kernel permits root
			3000: "echo x > stranger", // its kernel permits all users to write here
			// Its kernel takes this user for the owner. The write is ordered later: fsync returns the error.
			2000: "echo x | dd of=theirs oflag=append conv=notrunc,fsync",
		} {
			out, err := shell(home, who, script)
			require.Error(t, err, "user %d: %s: %s", who, script, out)
		}
		_, err = shell(home, 0, "rm -f theirs; chown 1000 public; mknod dev b 8 0 && chown 0 dev")
		require.Error(t, err)
		out, err = shell(filepath.Join(west, "home"), 2000, "cat theirs && stat -c %u public")
		require.NoError(t, err)
		require.Equal(t, "secret\n2000\n", out)
	})
	t.Run("another CA", func(t *testing.T) {
		certs := filepath.Join(t.TempDir(), "certs")
		certify("init", "--cluster", "test", "--dir", certs)
		certify("client", "mount", "--root", "--dir", certs)
		code, said := c.ranAs(t, "globalfs", "mount", c.Address("westa"), t.TempDir(), "--certs", certs, "--connect-timeout", "2s")
		require.Equal(t, 1, code)
		require.Contains(t, said, "certificate")
	})
	t.Run("a client as admin", func(t *testing.T) {
		out, err := c.Run(t.Context(), "admin", "drain", "westa", "--servers", c.Address("westa"), "--certs", c.only(t, "client-mount"))
		require.ErrorContains(t, err, "no certificate for the role admin", out)
	})
	t.Run("a revoked machine", func(t *testing.T) {
		certify("client", "stolen", "--dir", c.Certs())
		west := filepath.Join(c.mountWith(t, c.only(t, "client-stolen"), "--timeout", "2s"), "west")
		names, err := os.ReadDir(west)
		require.NoError(t, err)
		require.NotEmpty(t, names)
		revoke := func(more ...string) string {
			out, err := c.Admin(t.Context(), append([]string{"certs", "revoke", "stolen"}, more...)...)
			require.NoError(t, err)
			return out
		}
		require.Contains(t, revoke(), "the certificates of client stolen are refused from now on")
		made := filepath.Join(west, "home", "by-the-thief")
		for revoked := time.Now(); ; {
			began := time.Now()
			if _, err := shell(west, 2000, "touch "+made); err != nil { // after the timeout of the mount
				break
			}
			require.Less(t, began.Sub(revoked), 5*time.Second, "a revoked client has made a change")
		}
		_, err = shell(west, 2000, "touch "+made+"2")
		require.Error(t, err)
		out, err := c.Admin(t.Context(), "certs", "list", "--dir", c.Certs())
		require.NoError(t, err)
		require.Regexp(t, `client +stolen +revoked`, out)
		require.Regexp(t, `client +mount +valid`, out)
		require.Contains(t, revoke("--undo"), "accepted again")
		require.Eventually(t, func() bool {
			_, err := shell(west, 2000, "touch "+made+"3")
			return err == nil
		}, 60*time.Second, 100*time.Millisecond)
		require.NoFileExists(t, made+"2")
	})
	t.Run("noise", func(t *testing.T) {
		for n := range 50 {
			conn, err := net.DialTimeout("tcp", c.Address("westa"), 5*time.Second)
			require.NoError(t, err)
			garbage := make([]byte, 100*n)
			_, _ = rand.Read(garbage)
			_, _ = conn.Write(garbage) // it may hang up in the middle
			defer conn.Close()
		}
		require.NoError(t, os.WriteFile(filepath.Join(west, "after"), fmt.Append(nil, "all well"), 0o644))
	})
}
