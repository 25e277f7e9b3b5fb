package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// Names in the data directory.
const (
	clusterFile     = "cluster.yaml"
	certificatesDir = "certificates"
)

// DefaultDir returns the data directory of this user's embedded cluster: $XDG_STATE_HOME/globalfs/dev, or the
// same below ~/.local/state.
func DefaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the data: %w; name one with --data-dir", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "globalfs", "dev"), nil
}

// DefaultFile returns the path of the cluster file in DefaultDir; empty if there is no such directory.
func DefaultFile() string {
	dir, err := DefaultDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, clusterFile)
}

// claim locks dir for this process. The caller calls unlock after everything is closed.
func claim(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by another globalfs: stop it, or name another with --data-dir", dir), lock.Close())
	}
	if err := checkVersion(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock.Close, nil
}

// checkVersion refuses a data directory of a version without a registry: the servers would treat its data as
// unused.
func checkVersion(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, registry.LocalFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, clusterFile)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("data directory %s has no %s: an older version of globalfs has made it, or the file is lost: "+
			"run that version, restore the file, or begin anew with another --data-dir", dir, registry.LocalFile))
	}
	return nil
}

// fileOf returns the cluster file for all servers.
func (c *Cluster) fileOf(spec topology.Spec) *daemon.File {
	f := daemon.DefaultFile()
	f.Spec, f.DataDir = spec, c.cfg.Dir
	f.Registry.File = filepath.Join(c.cfg.Dir, registry.LocalFile)
	f.Certificates = filepath.Join(c.cfg.Dir, certificatesDir)
	f.Durability = map[wal.Durability]string{wal.OS: "os", wal.Sync: "sync", wal.Memory: "memory"}[c.cfg.Durability]
	switch {
	case c.cfg.Grace < 0:
		f.GC.Grace = 0
	case c.cfg.Grace > 0:
		f.GC.Grace = c.cfg.Grace
	}
	if c.cfg.Sweep != 0 {
		f.GC.Sweep = c.cfg.Sweep
	}
	return &f
}

// writeFile writes the cluster file for other processes.
func writeFile(f *daemon.File) error {
	text := fmt.Sprintf("# Written at %s.\n%s", time.Now().UTC().Format(time.RFC3339), f.Template())
	return durable.WriteFile(filepath.Join(f.DataDir, clusterFile), []byte(text))
}
