package power

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
	"github.com/globalfs/globalfs/test/power/lossy"
	"github.com/globalfs/globalfs/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// world is a cluster of three servers, each with its own disk, with three replicas of each partition, and a
// mount.
type world struct {
	*testing.T
	*cluster.Cluster
	disks map[string]*lossy.Disk // by server
	boots int
	mount *cluster.Mount
}

func start(t *testing.T, durability, order string) *world {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("only root can mount, where there is FUSE")
	}
	etcd, err := cluster.FindEtcd()
	if err != nil {
		t.Skipf("no etcd: run deploy/deps.sh test (%v)", err)
	}
	w := &world{T: t, disks: map[string]*lossy.Disk{}}
	cfg := cluster.Config{
		Program: program.Path(t), Etcd: etcd, Dir: t.TempDir(), Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2, Durability: durability,
		LocalOrder: order,
	}
	for _, name := range cfg.Servers("west") {
		disk, dir := lossy.New(), filepath.Join(cfg.Dir, "data", name)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, disk.Mount(dir))
		t.Cleanup(func() { require.NoError(t, disk.Unmount()) })
		w.disks[name] = disk
	}
	w.Cluster, err = cluster.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		err := w.Close()
		if t.Failed() {
			for _, name := range w.Names() {
				t.Logf("%s said:\n%s", name, cluster.Tail(w.Servers[name].Log, 4000))
			}
		}
		require.NoError(t, err)
	})
	w.mount, err = w.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"))
	require.NoError(t, err)
	return w
}

// losePower kills all servers at once, removes their unsynced data, and starts them again. It returns the
// number of affected files and names.
func (w *world) losePower() (affected int) {
	for _, name := range w.Names() {
		w.Servers[name].Signal(syscall.SIGKILL)
	}
	for _, name := range w.Names() {
		affected += w.cutPower(name)
	}
	w.launch(w.Names()...)
	return affected
}

// cutPower kills one server, and removes its unsynced data. It returns the number of affected files and
// names.
func (w *world) cutPower(name string) int {
	w.Servers[name].Kill()
	require.NoError(w, w.disks[name].Unmount())
	lost := w.disks[name].Lose()
	w.Logf("%s: files and names that were not on disk: %d", name, lost)
	require.NoError(w, w.disks[name].Mount(w.DataDir(name)))
	w.boots++
	w.Servers[name].Env = []string{fmt.Sprint("GLOBALFS_TEST_BOOT_ID=", w.boots)}
	return lost
}

// launch starts servers and waits until they are ready.
func (w *world) launch(names ...string) {
	for _, name := range names {
		require.NoError(w, w.Servers[name].Launch())
	}
	for _, name := range names {
		require.NoError(w, w.Servers[name].AwaitReady(w.Context()))
	}
}

// withOrders runs a test with each protocol that orders partitions.
func withOrders(t *testing.T, test func(t *testing.T, order string)) {
	t.Parallel()
	for _, order := range []string{"primcast", "tram"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			test(t, order)
		})
	}
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.mount.Dir}, parts...)...)
}

// content returns the content of a file. Some contents are stored in the metadata, others in one or several
// blocks.
func content(name string, i int) []byte {
	sizes := []int{100, 4 << 10, 20 << 10, 1<<20 + 300}
	return bytes.Repeat(fmt.Appendf(nil, "%s %d\n", name, i), sizes[i%len(sizes)]/8)
}

// write makes a file, with flags for open, and syncs it if fsync is set.
func (w *world) write(path string, data []byte, flags int, fsync bool) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o644)
	require.NoError(w, err)
	_, err = f.Write(data)
	require.NoError(w, err)
	if fsync {
		require.NoError(w, f.Sync())
	}
	require.NoError(w, f.Close())
}

// eventually reads a file, with retries: requests may time out while the servers elect leaders.
func (w *world) eventually(path string) (data []byte, err error) {
	require.Eventually(w, func() bool {
		data, err = os.ReadFile(path)
		return err == nil || errors.Is(err, os.ErrNotExist)
	}, time.Minute, 10*time.Millisecond, path)
	return data, err
}

// requireAll compares count files of a directory.
func (w *world) requireAll(dir, name string, count int) {
	w.Helper()
	for i := range count {
		path := filepath.Join(dir, fmt.Sprint(name, i))
		data, err := w.eventually(path)
		require.NoError(w, err, path)
		require.True(w, bytes.Equal(content(name, i), data), path)
	}
}

const files = 12

// With sync, every acknowledged update survives, without calls of fsync.
func TestAcknowledgedSurvivesWithSync(t *testing.T) { withOrders(t, acknowledgedSurvivesWithSync) }

func acknowledgedSurvivesWithSync(t *testing.T, order string) {
	w := start(t, "sync", order)
	for _, dir := range []string{w.path(), w.path("west")} {
		for i := range files {
			w.write(filepath.Join(dir, fmt.Sprint("file", i)), content("file", i), 0, false)
		}
		require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
		require.NoError(t, os.Rename(filepath.Join(dir, "file0"), filepath.Join(dir, "sub", "file0")))
	}
	w.losePower()
	for _, dir := range []string{w.path(), w.path("west")} {
		data, err := w.eventually(filepath.Join(dir, "sub", "file0"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content("file", 0), data))
		require.NoError(t, os.Rename(filepath.Join(dir, "sub", "file0"), filepath.Join(dir, "file0")))
		w.requireAll(dir, "file", files)
	}
}

// With os, updates that fsync, O_SYNC, fdatasync, fsync of a directory, or `globalfs sync` have covered
// survive. A later fsync of a program reports the loss of other updates.
func TestFsyncedSurvivesWithOS(t *testing.T) { withOrders(t, fsyncedSurvivesWithOS) }

func fsyncedSurvivesWithOS(t *testing.T, order string) {
	w := start(t, "os", order)
	for _, dir := range []string{w.path(), w.path("west")} {
		for i := range files {
			w.write(filepath.Join(dir, fmt.Sprint("early", i)), content("early", i), 0, false)
			w.write(filepath.Join(dir, fmt.Sprint("fsync", i)), content("fsync", i), 0, true)
			w.write(filepath.Join(dir, fmt.Sprint("dsync", i)), content("dsync", i), unix.O_DSYNC, false)
		}
		require.NoError(t, os.Mkdir(filepath.Join(dir, "made"), 0o755))
		d, err := os.Open(dir)
		require.NoError(t, err)
		require.NoError(t, d.Sync())
		require.NoError(t, d.Close())
	}
	for i := range files {
		w.write(w.path("west", fmt.Sprint("all", i)), content("all", i), 0, false)
	}
	said, err := w.Cluster.Run(t.Context(), "sync", "--output", "json", w.path("west"))
	require.NoError(t, err)
	require.Contains(t, said, `"partitions": 2`)

	open, err := os.Create(w.path("west", "open"))
	require.NoError(t, err)
	defer open.Close()
	for i := range files {
		_, err := open.Write(content("open", i))
		require.NoError(t, err)
		w.write(w.path("west", fmt.Sprint("late", i)), content("late", i), 0, false)
	}
	require.NotZero(t, w.losePower())
	for _, dir := range []string{w.path(), w.path("west")} {
		for _, name := range []string{"early", "fsync", "dsync"} {
			w.requireAll(dir, name, files)
		}
		require.DirExists(t, filepath.Join(dir, "made"))
	}
	w.requireAll(w.path("west"), "all", files)

	lost := 0
	for i := range files {
		data, err := w.eventually(w.path("west", fmt.Sprint("late", i)))
		if err != nil || !bytes.Equal(content("late", i), data) {
			lost++
		}
	}
	t.Logf("%d of %d files that nobody had synced were lost", lost, files)
	err = open.Sync()
	if lost > 0 {
		require.Error(t, err, "something was lost, and fsync says that it is on disk")
		require.NoError(t, open.Sync(), "a descriptor is told once")
	}
}

// status returns the lines of `globalfs status`, which fails if there are problems.
func (w *world) status() string {
	said, err := w.Admin(w.Context(), "status")
	if err != nil {
		said += err.Error()
	}
	return said
}

// With os, one server loses power, and starts again while the only other server with the same records is
// down. It must not form a majority without these records.
func TestOneLosesPower(t *testing.T) { withOrders(t, oneLosesPower) }

func oneLosesPower(t *testing.T, order string) {
	w := start(t, "os", order)
	names := w.Names()
	dirs := []string{".", "west"}
	for _, dir := range dirs {
		for i := range files {
			w.write(w.path(dir, fmt.Sprint("early", i)), content("early", i), 0, false)
		}
	}
	w.Servers[names[2]].Kill() // it keeps its power, and misses the following updates
	for _, dir := range dirs {
		for i := range files {
			path := w.path(dir, fmt.Sprint("late", i))
			require.Eventually(t, func() bool { return os.WriteFile(path, content("late", i), 0o644) == nil },
				time.Minute, 10*time.Millisecond, path)
		}
	}
	w.Servers[names[1]].Kill()
	require.NotZero(t, w.cutPower(names[0]))
	require.NoError(t, w.Servers[names[0]].Launch())
	require.NoError(t, w.Servers[names[2]].Launch())
	require.Eventually(t, func() bool {
		said := w.status()
		return strings.Contains(said, "REPLICA_AMNESIAC: server "+names[0]+" has lost power") &&
			strings.Contains(said, "partition 0 (/), partition 1 (/west)")
	}, time.Minute, 100*time.Millisecond)

	require.NoError(t, w.Servers[names[1]].Launch())
	for _, name := range names {
		require.NoError(t, w.Servers[name].AwaitReady(t.Context()))
	}
	other, err := w.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "other")) // has nothing in its caches
	require.NoError(t, err)
	for _, dir := range dirs {
		w.requireAll(filepath.Join(other.Dir, dir), "early", files)
		w.requireAll(filepath.Join(other.Dir, dir), "late", files)
	}
	require.Eventually(t, func() bool { return !strings.Contains(w.status(), "AMNESIAC") }, time.Minute, 100*time.Millisecond)
}

// A server that is stopped before its machine keeps its vote and its acknowledged records.
func TestStopBeforeThePowerIsCut(t *testing.T) { withOrders(t, stopBeforeThePowerIsCut) }

func stopBeforeThePowerIsCut(t *testing.T, order string) {
	w := start(t, "os", order)
	dirs := []string{".", "west"}
	for _, dir := range dirs {
		for i := range files {
			require.NoError(t, os.Mkdir(w.path(dir, fmt.Sprint("made", i)), 0o755))
		}
	}
	for _, name := range w.Names() {
		require.NoError(t, w.Servers[name].Stop())
	}
	for _, name := range w.Names() {
		w.cutPower(name)
	}
	w.launch(w.Names()...)
	other, err := w.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "other")) // has nothing in its caches
	require.NoError(t, err)
	for _, dir := range dirs {
		for i := range files {
			require.Eventually(t, func() bool {
				info, err := os.Stat(filepath.Join(other.Dir, dir, fmt.Sprint("made", i)))
				require.NotErrorIs(t, err, os.ErrNotExist)
				return err == nil && info.IsDir()
			}, time.Minute, 10*time.Millisecond)
		}
	}
	for _, name := range w.Names() {
		log, err := os.ReadFile(w.Servers[name].Log)
		require.NoError(t, err)
		require.NotContains(t, string(log), "the machine has started anew")
		require.NotContains(t, string(log), "had lost power")
	}
}

// With os, a majority that has lost power waits for the other replica, because that may have records which
// the majority has lost. If it never returns, an operator replaces it: the partition continues, with all
// synced data.
func TestOneNeverReturns(t *testing.T) { withOrders(t, oneNeverReturns) }

func oneNeverReturns(t *testing.T, order string) {
	w := start(t, "os", order)
	names := w.Names()
	dirs := []string{".", "west"}
	for _, dir := range dirs {
		for i := range files {
			w.write(w.path(dir, fmt.Sprint("synced", i)), content("synced", i), 0, true)
		}
	}
	w.Servers[names[2]].Kill()
	for _, name := range names[:2] {
		w.Servers[name].Kill()
		w.cutPower(name)
	}
	for _, name := range names[:2] {
		require.NoError(t, w.Servers[name].Launch())
	}
	require.Eventually(t, func() bool {
		said := w.status()
		return strings.Contains(said, "REPLICA_AMNESIAC: server "+names[0]+" has lost power") &&
			strings.Contains(said, "REPLICA_AMNESIAC: server "+names[1]+" has lost power")
	}, time.Minute, 100*time.Millisecond)
	for p := range dirs {
		partition := fmt.Sprint(p)
		out, err := w.Admin(t.Context(), "admin", "replace", partition, names[2], "--to", names[2])
		require.Error(t, err)
		require.Contains(t, out+err.Error(), "take part and would stay")
		require.Eventually(t, func() bool {
			out, err = w.Admin(t.Context(), "admin", "replace", partition, names[2], "--to", names[2], "--accept-loss")
			if err != nil {
				t.Logf("replace: %s%v", out, err)
			}
			return err == nil
		}, 2*time.Minute, time.Second)
	}
	old, err := os.ReadDir(w.DataDir(names[2]))
	require.NoError(t, err)
	for _, e := range old { // the server gets another disk
		require.NoError(t, os.RemoveAll(filepath.Join(w.DataDir(names[2]), e.Name())))
	}
	require.NoError(t, w.Servers[names[2]].Launch())
	for _, name := range names {
		require.NoError(t, w.Servers[name].AwaitReady(t.Context()))
	}
	for _, dir := range dirs {
		require.Eventually(t, func() bool { return os.WriteFile(w.path(dir, "after"), nil, 0o644) == nil }, 3*time.Minute, 100*time.Millisecond)
		w.requireAll(w.path(dir), "synced", files)
	}
	require.Eventually(t, func() bool { return !strings.Contains(w.status(), "AMNESIAC") }, time.Minute, 100*time.Millisecond)
}
