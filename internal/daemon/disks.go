package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// claimDir locks dir for this process until unlock (D2).
func claimDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by another globalfs server: stop it, or name another with --data-dir", dir), lock.Close())
	}
	return lock.Close, nil
}

// ownerFile names the owner of a data directory: the cluster, the server, and an instance that distinguishes
// this directory from all others.
const ownerFile = "owner"

// checkOwner compares dir's owner with this server, or records this server as the owner (D3). It returns the
// instance.
func checkOwner(dir, name string, d *description) (instance string, err error) {
	path := filepath.Join(dir, ownerFile)
	wanted := fmt.Sprintf("%s %s %s", d.spec.Name, d.cluster.Identity(), name)
	text, err := durable.ReadCopied(path, func(text []byte) (uint64, error) {
		_, _, err := readOwner(path, wanted, text)
		return 0, err
	})
	if errors.Is(err, fs.ErrNotExist) {
		instance = rand.Text()
		return instance, durable.WriteCopied(path, fmt.Appendf(nil, "%s\n%s\n", wanted, instance))
	}
	if err != nil {
		return "", err
	}
	is, instance, err := readOwner(path, wanted, text)
	if err == nil && is != wanted {
		err = fmt.Errorf("data directory %s is of %q, not of %q (cluster, time of its creation, server): give another --data-dir, or remove that one", dir, is, wanted)
	}
	return instance, err
}

// readOwner parses the content of ownerFile.
func readOwner(path, wanted string, text []byte) (is, instance string, err error) {
	is, instance, ok := strings.Cut(strings.TrimSuffix(string(text), "\n"), "\n")
	if !ok || instance == "" {
		return "", "", fmt.Errorf("%s is damaged: it must contain %q and, in a second line, any name that no other directory has", path, wanted)
	}
	return is, instance, nil
}

// marks are the permanent records of the registry about processes.
type marks interface {
	Mark(ctx context.Context, name string) error
	Marked(ctx context.Context, name string) (bool, error)
}

// processFile names the process that a partition's directory belongs to, and records whether that process is
// marked in the registry.
const processFile = "process"

// settle prepares the directory of each replica that d has on a server for its process (D1). It returns the
// replicas with a lost disk: they must be replaced before anything starts. It sets the files of a replaced
// process aside.
func settle(ctx context.Context, dir, name string, d *description, r marks) (lost []topology.Replica, err error) {
	for i := range d.cluster.Partitions {
		p := &d.cluster.Partitions[i]
		for _, replica := range p.Replicas {
			if replica.Server != name {
				continue
			}
			gone, err := settleOne(ctx, filepath.Join(dir, topology.PartitionDir(p.ID)), replica.Process, r)
			if err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.ID, err)
			}
			if gone {
				lost = append(lost, replica)
			}
		}
	}
	return lost, nil
}

// settleOne prepares one directory, and reports whether its process has lost its disk.
func settleOne(ctx context.Context, dir string, process multicast.ProcessID, r marks) (lost bool, err error) {
	path := filepath.Join(dir, processFile)
	was, marked, err := readProcess(path)
	switch {
	case err != nil:
		return false, err
	case was == process && marked:
		return false, nil
	case was != process:
		if spoke, err := r.Marked(ctx, markOf(process)); err != nil || spoke {
			return spoke, err
		}
		if err := setAside(dir, was); err != nil {
			return false, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return false, err
		}
		if err := durable.WriteCopied(path, fmt.Appendf(nil, "%d new\n", process)); err != nil {
			return false, err
		}
	}
	if err := r.Mark(ctx, markOf(process)); err != nil {
		return false, err
	}
	return false, durable.WriteCopied(path, fmt.Appendf(nil, "%d\n", process))
}

// setAside empties the directory of a partition for a new process. It keeps the files of a replaced process
// until its successor takes part: if too many disks seemed lost at once, they may be the only remaining
// state. It keeps damaged files as evidence until the next damaged ones. It deletes files that belong to no
// process: no process has sent messages from them.
func setAside(dir string, was multicast.ProcessID) error {
	if was == 0 {
		return os.RemoveAll(dir)
	}
	aside, older := fmt.Sprintf("%s.process-%d", dir, was), []string(nil)
	if _, err := os.Stat(filepath.Join(dir, server.DamageFile)); err == nil {
		entries, err := os.ReadDir(filepath.Dir(dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), filepath.Base(dir)+".damaged-") {
				older = append(older, filepath.Join(filepath.Dir(dir), e.Name()))
			}
		}
		aside = fmt.Sprintf("%s.damaged-%d", dir, was)
	}
	for _, path := range append(older, aside) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.Rename(dir, aside)
}

// clearAside deletes the files that setAside has kept for a partition, because the new replica takes part
// now.
func clearAside(dir string, partition uint16) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), topology.PartitionDir(partition)+".process-") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

func markOf(process multicast.ProcessID) string { return fmt.Sprintf("replica-%d", process) }

// readProcess returns the process that a directory belongs to, 0 for none, and whether that process is
// certainly marked in the registry.
func readProcess(path string) (process multicast.ProcessID, marked bool, err error) {
	parse := func(text []byte) error {
		number, isNew := strings.CutSuffix(strings.TrimSpace(string(text)), " new")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("%s does not name a process: if the disk is damaged, remove the directory: the replica is then replaced", path)
		}
		process, marked = multicast.ProcessID(n), !isNew
		return nil
	}
	text, err := durable.ReadCopied(path, func(text []byte) (uint64, error) { return 0, parse(text) })
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err == nil {
		err = parse(text)
	}
	if err != nil {
		return 0, false, err
	}
	return process, marked, nil
}
