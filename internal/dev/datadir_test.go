package dev

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/registry"
)

// smallConfig returns the configuration of a cluster of one region.
func smallConfig(dir string) Config {
	cfg := testConfig(dir)
	cfg.Spec.Regions = cfg.Spec.Regions[:1]
	return cfg
}

// A data directory of a version without a registry is refused, and not changed.
func TestDataDirectoryWithoutRegistry(t *testing.T) {
	cfg := smallConfig(t.TempDir())
	old := filepath.Join(cfg.Dir, "us-west-2a", "partition-0")
	require.NoError(t, os.MkdirAll(old, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, clusterFile), cfg.Spec.YAML(), 0o600))
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "has no registry.json")
	require.ErrorContains(t, err, "--data-dir")
	require.DirExists(t, old)
}

// Servers, including joined ones, keep their addresses across restarts, unless another process uses an
// address by then.
func TestAddressesAreKept(t *testing.T) {
	cfg := smallConfig(t.TempDir())
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	name := join(t, c, operator(t, c), cfg.Spec.Regions[0])
	before := planNow(t, c)
	require.NoError(t, c.Close())

	moves := map[string]bool{before.Servers[1].Name: true, name: true}
	for moved := range moves {
		l, err := net.Listen("tcp", before.Server(moved).Address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
	}
	c = start(t, cfg)
	for _, s := range c.Plan.Servers {
		if moves[s.Name] {
			require.NotEqual(t, before.Server(s.Name).Address, s.Address, s.Name)
		} else {
			require.Equal(t, before.Server(s.Name).Address, s.Address, s.Name)
		}
	}
	for _, answer := range operator(t, c).Status(t.Context()) {
		require.Empty(t, answer.Error)
	}
	require.Len(t, c.Plan.Servers, 4)
}

// Without the disks of a majority, the servers wait for their disks, and the error of the start names the
// missing ones.
func TestMajorityOfDisksGone(t *testing.T) {
	cfg := smallConfig(t.TempDir())
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for _, name := range []string{"us-west-2a", "us-west-2c"} {
		require.NoError(t, os.Rename(filepath.Join(cfg.Dir, name), filepath.Join(cfg.Dir, "away-"+name)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = Start(ctx, cfg)
	require.ErrorContains(t, err, "as if a disk was lost")
	require.ErrorContains(t, err, "of its 3 replicas take part and would stay, 2 are needed")
	for _, name := range []string{"us-west-2a", "us-west-2c"} {
		require.NoError(t, os.RemoveAll(filepath.Join(cfg.Dir, name)))
		require.NoError(t, os.Rename(filepath.Join(cfg.Dir, "away-"+name), filepath.Join(cfg.Dir, name)))
	}
	require.Empty(t, start(t, cfg).Plan.Replaced)
}

// Only users who may read the data directory can use the control port.
func TestControlNeedsACertificate(t *testing.T) {
	c := start(t, smallConfig(t.TempDir()))
	address := c.Plan.Servers[0].Address
	_, err := daemon.Connect(t.Context(), daemon.AccessConfig{Servers: []string{address}, Timeout: time.Second, Logger: c.cfg.Logger})
	require.Error(t, err)
	client, err := identity.Find(c.file.Certificates, identity.Client, "")
	require.NoError(t, err)
	a, err := daemon.Connect(t.Context(), daemon.AccessConfig{Servers: []string{address}, Certificates: client, Timeout: 10 * time.Second, Logger: c.cfg.Logger})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	require.ErrorContains(t, a.Ask(t.Context(), "", &daemon.Request{Op: daemon.Drain, Server: "us-west-2a"}, &daemon.Changed{}), "needs the certificate of an admin")
	for _, name := range []string{".", registry.LocalFile, clusterFile, certificatesDir} {
		info, err := os.Stat(filepath.Join(c.cfg.Dir, name))
		require.NoError(t, err)
		if name != "." { // t.TempDir made it
			require.Zero(t, info.Mode().Perm()&0o077, name)
		}
	}
}
