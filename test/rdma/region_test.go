package rdma

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/cluster"
)

// The tests of this file run servers that order the partitions of a region by TRAM over RDMA. Each server has
// a device of its own if there are enough. The tests themselves are in other packages, which run them without
// RDMA, too.

// TestServers: servers in one process show the connections of their memory, go on without a leader, and
// replace a replica.
func TestServers(t *testing.T) { run(t, "../../internal/daemon", "-test.run", "^TestTram") }

// TestProcesses: each server is killed under load. Its cable is unplugged. All of them are killed.
func TestProcesses(t *testing.T) {
	find(t).runCluster(t, "../cluster", "TestTram", "TestTramUnplugged", "TestTramRestartsOfAll")
}

// TestBuilds: a mount builds a C project, and passes a test of pjdfstest for each operation.
func TestBuilds(t *testing.T) { find(t).runCluster(t, "../posix", "TestTramBuilds") }

// runCluster runs tests that start servers as processes, each as a subtest.
func (p place) runCluster(t *testing.T, dir string, tests ...string) {
	program := goBuild(t, ".", []string{"build", "-trimpath", "-tags", "verbs"}, "github.com/globalfs/globalfs/cmd/globalfs")
	etcd, err := cluster.FindEtcd()
	require.NoError(t, err, "deploy/deps.sh test fetches etcd")
	r := test{binary: build(t, dir), env: []string{"GLOBALFS_TEST_PROGRAM=" + program}}
	if p.vm != "" {
		const here = "/payload/globalfs"
		r.env = []string{"GLOBALFS_TEST_PROGRAM=" + here}
		r.files = append(compiler(t), program+":"+here, etcd+":/payload/etcd", pjdfstest(t)+":/payload/pjdfstest",
			"../../docs/posix.md:/docs/posix.md", "/etc/passwd:/etc/passwd", "/etc/group:/etc/group")
	}
	for _, name := range tests {
		t.Run(name, func(t *testing.T) {
			r := r
			r.args = []string{"-test.run", "^" + name + "$"}
			p.run(t, "", r)
		})
	}
}

func pjdfstest(t *testing.T) string {
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	path := filepath.Join(cache, "globalfs", "posixtest", "bin", "pjdfstest")
	require.FileExists(t, path, "deploy/deps.sh test installs it")
	return path
}

// compiler lists the files of make and of the C compiler that small programs need.
func compiler(t *testing.T) (files []string) {
	ask := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader("#include <stdio.h>\n")
		out, err := cmd.Output()
		require.NoError(t, err, "%s %v", name, args)
		return strings.TrimSpace(string(out))
	}
	add := func(path, place string) {
		real, err := filepath.EvalSymlinks(path)
		require.NoError(t, err)
		files = append(files, real+":"+filepath.Clean(place))
	}
	for _, name := range []string{"cc", "make", "as", "ld"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		add(path, "/usr/bin/"+name)
	}
	for _, name := range []string{"cc1", "collect2"} {
		path := ask("cc", "-print-prog-name="+name)
		add(path, path)
	}
	for _, name := range strings.Fields(`Scrt1.o crti.o crtbeginS.o crtendS.o crtn.o libgcc.a libgcc_s.so libgcc_s.so.1 libc.so
		libc_nonshared.a liblto_plugin.so lto-wrapper`) {
		path := ask("cc", "-print-file-name="+name)
		add(path, path)
	}
	for _, name := range strings.Fields(ask("cc", "-M", "-x", "c", "-")) {
		if filepath.IsAbs(name) {
			add(name, name)
		}
	}
	return files
}
