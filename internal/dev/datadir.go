package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// DefaultDir is where the embedded cluster of this user keeps its data:
// $XDG_STATE_HOME/globalfs/dev, or the same below ~/.local/state.
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

// specFile says for which cluster the data directory was made, and what has happened to it since.
const specFile = "cluster.yaml"

// claim makes dir this process's: it takes its lock, checks that what is in it was made for the
// same cluster, and sets when and by whom that was created. The caller calls unlock when all is closed.
func claim(dir string, spec *topology.Spec) (unlock func() error, err error) {
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
	if err := checkSpec(filepath.Join(dir, specFile), spec); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock.Close, nil
}

// noteStarted notes that all servers have been started, if it is the first time: from then on their logs must be there.
func noteStarted(dir string, spec *topology.Spec, durability wal.Durability) error {
	if spec.Started || durability == wal.Memory {
		return nil
	}
	spec.Started = true
	return durable.WriteFile(filepath.Join(dir, specFile), spec.YAML())
}

// checkSpec compares spec with the one that the data was made for, or notes it.
func checkSpec(path string, spec *topology.Spec) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		spec.Created = time.Now().UTC().Round(0) // to the nanosecond: it tells this cluster from all others
		spec.Owner = topology.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
		return durable.WriteFile(path, spec.YAML())
	}
	if err != nil {
		return err
	}
	was, err := topology.ParseSpec(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := spec.Adopt(was); err != nil {
		return fmt.Errorf("%s: %w\nuse the same flags, or another --data-dir", path, err)
	}
	if now := spec.YAML(); !bytes.Equal(text, now) { // the object storage is reached at another address
		return durable.WriteFile(path, now)
	}
	return nil
}
