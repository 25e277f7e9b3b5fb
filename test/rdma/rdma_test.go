package rdma

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is where programs with RDMA run.
type place struct {
	device string
	front  []string // of the command line
}

// find gives the place for RDMA that this machine has.
func find(t *testing.T) place {
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) > 0 {
		return place{device: filepath.Base(devices[0])}
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
	return place{device: "rxe1", front: []string{path, "-n", "3", "-t", "400", "-e", "RDMA_DEVICE=rxe1", "--"}}
}

// run builds the test program of a package with RDMA, in the package's module, and runs it.
func run(t *testing.T, dir string, args ...string) {
	p := find(t)
	binary := filepath.Join(t.TempDir(), "rdma.test")
	build := exec.Command("go", "test", "-tags", "rdma", "-c", "-o", binary, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	line := append(append(p.front, binary, "-test.v", "-test.timeout", "5m"), args...)
	test := exec.Command(line[0], line[1:]...)
	test.Env = append(os.Environ(), "RDMA_DEVICE="+p.device)
	out, err = test.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// TestVerbs: the conformance suite of fabrics on RDMA devices.
func TestVerbs(t *testing.T) { run(t, "../../pkg/fabric/verbs") }

// TestConnections: the conformance suite of connections, half-close, death of the peer and TLS.
func TestConnections(t *testing.T) { run(t, "../../pkg/rdmaconn") }

// TestInterop: the interoperability tests of gRPC over RDMA.
func TestInterop(t *testing.T) { run(t, "interop") }

// TestInteropWithoutRDMA: the same over the same connections on provider soft.
func TestInteropWithoutRDMA(t *testing.T) {
	test := exec.Command("go", "test", "-count=1", ".")
	test.Dir = "interop"
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
