package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// All processes of a cluster end properly: Close returns an error if one does not.
func TestProcessesEndWell(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("only root can mount, where there is FUSE")
	}
	etcd, err := FindEtcd()
	if err != nil {
		t.Skipf("no etcd: run deploy/deps.sh test (%v)", err)
	}
	c, err := Start(t.Context(), Config{Program: program.Path(t), Etcd: etcd, Dir: t.TempDir(), Regions: []topology.Region{"west"}, Datacenters: 1, Replicas: 1, Copies: 1})
	require.NoError(t, err)
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"))
	if err == nil {
		err = os.WriteFile(filepath.Join(m.Dir, "west", "file"), []byte("x"), 0o644)
	}
	require.NoError(t, c.Close())
	require.NoError(t, err)
}
