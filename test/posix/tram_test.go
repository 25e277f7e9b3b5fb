package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
	processes "github.com/globalfs/globalfs/test/cluster"
	"github.com/globalfs/globalfs/test/program"
)

// tramMount starts three servers of one region, in which TRAM orders all partitions: the global one and some
// of the region. It returns a directory on a mount that orders each update.
func tramMount(t *testing.T, partitions int) string {
	requireMount(t)
	etcd, err := processes.FindEtcd()
	if err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	base := shortDir(t)
	c, err := processes.Start(t.Context(), processes.Config{
		Program: program.Path(t), Etcd: etcd, Dir: t.TempDir(), Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2,
		Partitions: partitions, LocalOrder: "tram", RDMA: processes.RDMADevices(),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		err := c.Close()
		if t.Failed() {
			for _, name := range c.Names() {
				t.Logf("%s said:\n%s", name, processes.Tail(c.Servers[name].Log, 4000))
			}
		}
		require.NoError(t, err)
	})
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(base, "m"), "--delegate=none")
	require.NoError(t, err)
	return m.Dir
}

// TestTram runs all of pjdfstest, and fsx, in a region with two partitions that TRAM orders.
func TestTram(t *testing.T) {
	program := tester(t, "pjdfstest")
	west := filepath.Join(tramMount(t, 2), "west")
	t.Run("pjdfstest", func(t *testing.T) {
		dir := mkdir(t, west, "shards")
		inos := map[uint64]bool{}
		for i := range 20 {
			info, err := os.Stat(mkdir(t, dir, fmt.Sprint("spread-", i)))
			require.NoError(t, err)
			inos[info.Sys().(*syscall.Stat_t).Ino>>48] = true
		}
		require.Len(t, inos, 2, "the homes of 20 directories")
		runPjdfstest(t, program, dir, nil)
	})
	for name, weights := range map[string]string{"plain": fsxPlain, "mapped": fsxMapped} {
		t.Run("fsx-"+name, func(t *testing.T) { fsx(t, weights, filepath.Join(west, name)) })
	}
}

// onePerOperation names a test of pjdfstest for each operation.
var onePerOperation = []string{
	"chmod::change_perm::regular", "chown::enoent_named_file", "ftruncate::shrink_not_empty", "link::share_metadata::regular",
	"mkdir::permission_bits_from_mode", "mkfifo::permission_bits_from_mode", "mknod::permission_bits_from_mode", "open::permission_bits_from_mode",
	"posix_fallocate::increase_not_empty", "rename::preserve_metadata::regular", "rmdir::remove_dir", "symlink::create_symlink::regular",
	"truncate::shrink_not_empty", "unlink::remove_type::regular", "utimensat::changes_timestamps::regular",
}

// TestTramBuilds builds a C project and runs a test of pjdfstest for each operation, where TRAM orders all
// partitions. test/rdma runs it over RDMA, in a virtual machine that is too slow for TestTram.
func TestTramBuilds(t *testing.T) {
	program := tester(t, "pjdfstest")
	west := filepath.Join(tramMount(t, 1), "west")
	buildProject(t, mkdir(t, west, "project"), 20)
	dir := mkdir(t, west, "pjdfstest")
	summary := judgePjdfstest(t, nil, dir, program, slices.Concat([]string{"-c", pjdfstestConfig(t, false), "-p", dir}, onePerOperation)...)
	require.NotContains(t, summary, " 0 passed")
}
