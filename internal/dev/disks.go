package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// replaceLost looks for replicas whose disk is gone: they were started before, and their logs are not there. A replica that forgot
// what it has promised must not come back as itself, so each gets a new process in its place, which takes over the state of the
// others; that is noted in the data directory before it starts. It gives the cluster as it is then.
func replaceLost(dir string, spec *topology.Spec, durability wal.Durability, logger *slog.Logger) (*topology.Cluster, error) {
	plan, err := spec.Plan()
	if err != nil || durability == wal.Memory || !spec.Started {
		return plan, err
	}
	before := len(spec.Replaced)
	for i := range plan.Partitions {
		if err := replaceLostOf(dir, spec, plan, &plan.Partitions[i], logger); err != nil {
			return nil, err
		}
	}
	if len(spec.Replaced) == before {
		return plan, nil
	}
	if err := durable.WriteFile(filepath.Join(dir, specFile), spec.YAML()); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return spec.Plan()
}

func replaceLostOf(dir string, spec *topology.Spec, plan *topology.Cluster, p *topology.Partition, logger *slog.Logger) error {
	var lost []topology.Replica
	for _, r := range p.Replicas {
		log := filepath.Join(dir, r.Server, fmt.Sprintf("partition-%d", p.ID), "log")
		if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, r)
		} else if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if len(lost) > 0 && len(lost) > (len(p.Replicas)-1)/2 {
		return fmt.Errorf("partition %d has lost %d of its %d replicas with their disks (the first on server %s): what a majority has lost cannot be brought back from the others: "+
			"restore %s/SERVER/partition-%d from a backup, or begin anew with another --data-dir", p.ID, len(lost), len(p.Replicas), lost[0].Server, dir, p.ID)
	}
	for _, r := range lost {
		if err := os.RemoveAll(filepath.Join(dir, r.Server, fmt.Sprintf("partition-%d", p.ID))); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		process := spec.Replace(plan, r.Process, "")
		logger.Warn("a replica's disk is gone: another process takes its place and takes over the state of the others",
			"server", r.Server, "partition", p.ID, "process", r.Process, "by", process)
	}
	return nil
}
