package rdma

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// place is where programs with RDMA run.
type place struct {
	devices []string
	vm      string // path of rdma-vm; empty: this machine has a device
}

// find gives the place for RDMA that this machine has.
func find(t *testing.T) place {
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) > 0 {
		for i := range devices {
			devices[i] = filepath.Base(devices[i])
		}
		return place{devices: devices}
	}
	if os.Getenv("RDMA_VM") != "1" {
		t.Skip("by design: this machine has no RDMA device; RDMA_VM=1 make rdma runs this in a virtual machine")
	}
	name := os.Getenv("RDMA_VM_PROGRAM")
	if name == "" {
		name = "rdma-vm"
	}
	path, err := exec.LookPath(name)
	require.NoError(t, err, "RDMA_VM=1 needs rdma-vm in PATH, or RDMA_VM_PROGRAM")
	return place{devices: []string{"rxe1", "rxe2", "rxe3"}, vm: path}
}

// test is a test binary.
type test struct {
	binary string
	args   []string
	env    []string
	files  []string // that the virtual machine needs: PATH:DEST
}

// build builds the test binary of a package, in the package's module.
func build(t *testing.T, dir string, flags ...string) string {
	return goBuild(t, dir, slices.Concat([]string{"test", "-c"}, flags), ".")
}

func goBuild(t *testing.T, dir string, command []string, target string) string {
	binary := filepath.Join(t.TempDir(), "rdma.test")
	cmd := exec.Command("go", append(command, "-o", binary, target)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// limit is the time for one run of a test binary. Each run has a virtual machine of its own.
const limit = 15 * time.Minute

// run runs a test binary, in the directory of its package. Its output goes to a file, which go test keeps
// with -artifacts.
func (p place) run(t *testing.T, dir string, r test) {
	t.Helper()
	env := append(r.env, "RDMA_DEVICE="+p.devices[0], "GLOBALFS_TEST_RDMA="+strings.Join(p.devices, " "))
	line := append([]string{r.binary, "-test.v", "-test.timeout", limit.String()}, r.args...)
	if p.vm != "" {
		front := []string{p.vm, "-n", "3", "-m", "4096", "-t", strconv.Itoa(int(limit.Seconds()))}
		for _, e := range env {
			front = append(front, "-e", e)
		}
		for _, f := range r.files {
			front = append(front, "-a", f)
		}
		line = slices.Concat(front, []string{"--"}, line)
	}
	path := filepath.Join(t.ArtifactDir(), "output")
	log, err := os.Create(path)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), env...)
	failure := cmd.Run()
	out, err := os.ReadFile(path)
	require.NoError(t, err)
	t.Logf("%s", out)
	require.NoError(t, failure)
}

// run builds the test program of a package with RDMA, in the package's module, and runs it.
func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	find(t).run(t, dir, test{binary: build(t, dir, "-tags", "verbs"), args: args})
}

// TestVerbs runs the conformance suite of fabrics on RDMA devices.
func TestVerbs(t *testing.T) { run(t, "../../pkg/fabric/verbs") }

// TestRevocations repeats the test in which a right is revoked while writes are under way.
func TestRevocations(t *testing.T) {
	run(t, "../../pkg/fabric/verbs", "-test.run", "^TestConformance$/^RevokeRace$", "-test.count", "25")
}

// TestGroups runs TRAM in three groups of three processes, in which the leaders are killed.
func TestGroups(t *testing.T) { run(t, "../../pkg/multicast/tram", "-test.run", "^TestProcesses$") }

// TestConnections runs the conformance suite of connections, and tests half-close, the death of the peer and
// TLS.
func TestConnections(t *testing.T) { run(t, "../../pkg/rdmaconn") }

// TestInterop runs the interoperability tests of gRPC over RDMA.
func TestInterop(t *testing.T) { run(t, "interop") }

// TestInteropWithoutRDMA runs the same tests over the same connections on provider soft.
func TestInteropWithoutRDMA(t *testing.T) {
	test := exec.Command("go", "test", "-count=1", ".")
	test.Dir = "interop"
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
