package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// shell runs a script in a directory, as a user that is in group 1001 too.
func shell(t *testing.T, dir string, id uint32, script string) error {
	t.Helper()
	// The shell changes the directory. The child must not do it before exec: until then the child is still
	// this process, which serves the mount (doc.go).
	run := exec.CommandContext(t.Context(), "sh", "-ec", `cd "$1"; eval "$2"`, "sh", dir, script)
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id, Groups: []uint32{1001}}}
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	return err
}

// daily is a script of a user's daily work.
const daily = `
umask 022
echo one > f; echo two >> f; test "$(cat f)" = "one
two"
mkdir -p a/b/c; cp f a/b/g; mv a/b/g a/h; ln a/h a/i; ln -s h a/s; test "$(readlink a/s)" = h
dd if=/dev/zero of=large bs=64k count=5 2>/dev/null; truncate -s 100000 large; test $(stat -c %s large) = 100000
echo again > f; test "$(cat f)" = again
touch -d 2001-02-03 f; test "$(stat -c %y f | cut -c-10)" = 2001-02-03; touch f
install -m 444 f read-only; test "$(cat read-only)" = again; rm -f read-only
chmod 4755 large; echo x >> large; test $(stat -c %a large) = 755
chgrp 1001 f; test $(stat -c %g f) = 1001
(flock 9; echo locked >&9) 9> lock
cp /bin/true run; chmod 711 run; ./run
mkdir private; chmod 700 private; echo secret > private/s; cat private/s; tar cf all.tar a f; mkdir x; tar xf all.tar -C x; rm -r x a
test "$(ls)" = "all.tar
f
large
lock
private
run"
`

// A machine may act for two users. These users work through the kernel as on any mount. Other users, and root
// of the machine, get no more rights than the machine has.
func TestBoundMachine(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	m := mountOf(t, n)
	ids := []posix.IDs{{First: 1000, Last: 1001}}
	cfg := n.Config("us-west-2")
	cfg.Caller = n.Bound(&ask.Client{Name: "laptop", Authority: &posix.Authority{UIDs: ids, GIDs: ids}})
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	dir := t.TempDir()
	b, err := New(Config{Client: c, Dir: dir, CacheTime: -1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Unmount()) })

	for name, id := range map[string]int{"alice": 1000, "bob": 2000, "all": 0} {
		require.NoError(t, os.Mkdir(m.path(name), 0o755))
		require.NoError(t, os.Chown(m.path(name), id, id))
	}
	require.NoError(t, os.Chmod(m.path("all"), 0o777|os.ModeSticky))
	require.NoError(t, os.WriteFile(m.path("bob/secret"), []byte("s"), 0o600))
	alice := filepath.Join(dir, "alice")
	require.NoError(t, shell(t, alice, 1000, daily))
	require.NoError(t, shell(t, dir, 1001, "test ! -w alice; cat alice/f; ! cat alice/private/s; echo mine > all/of-1001"))
	require.Error(t, shell(t, dir, 1000, "rm -f all/of-1001"), "sticky")

	require.Error(t, shell(t, filepath.Join(dir, "bob"), 2000, "echo x > new"), "the machine does not act for Bob")
	require.NoError(t, shell(t, dir, 0, "touch all/squashed; ! cat bob/secret; ! touch bob/x; ! chmod 777 alice; ! rm alice/f; ! chown 1000 all"))
	require.EqualValues(t, posix.NobodyID, m.stat(t, "all/squashed").Uid)
	require.Equal(t, "s", m.read(t, "bob/secret"))
	require.NoFileExists(t, m.path("bob/new"))
}
