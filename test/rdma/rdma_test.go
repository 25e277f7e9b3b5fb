package rdma

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program gives the command line in front of a test program, which is empty if this machine has a device.
func program(t *testing.T) []string {
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) > 0 {
		return nil
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
	return []string{path, "-n", "3", "-t", "400", "--"}
}

// run builds a test program with RDMA and runs it.
func run(t *testing.T, pkg string, args ...string) {
	in := program(t)
	dir := t.TempDir()
	binary := filepath.Join(dir, "rdma.test")
	build := exec.Command("go", "test", "-tags", "rdma", "-c", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	line := append(append(in, binary), args...)
	out, err = exec.Command(line[0], line[1:]...).CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// TestVerbs: the conformance suite of fabrics on RDMA devices.
func TestVerbs(t *testing.T) {
	run(t, "github.com/globalfs/globalfs/pkg/fabric/verbs", "-test.v", "-test.timeout", "5m")
}
