package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Embedded runs the whole cluster in one process, `globalfs dev`, without etcd, certificates and a
// laboratory. It makes a directory and mounts the tree there for a client in the first region. flags are
// further flags of the command.
func Embedded(ctx context.Context, cfg Config, dir string, flags ...string) (*Mount, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cfg.Lab = nil
	c := &Cluster{cfg: cfg}
	m := &Mount{Dir: dir, Process: &Process{Name: "embedded cluster", Log: c.path("dev.log")}}
	more, err := c.profiled(m.Process, "")
	if err != nil {
		return nil, err
	}
	var regions []string
	for _, r := range cfg.Regions {
		regions = append(regions, string(r))
	}
	args := slices.Concat([]string{
		"dev", "--regions", strings.Join(regions, ","), "--datacenters", fmt.Sprint(cfg.Datacenters), "--replicas", fmt.Sprint(cfg.Replicas),
		"--copies", fmt.Sprint(cfg.Copies), "--data-dir", c.path("data"), "--mount", dir,
	}, flags, more)
	args = append(args, "--durability", cfg.durability())
	m.command = func(ctx context.Context) *exec.Cmd { return endWithUs(exec.CommandContext(ctx, cfg.Program, args...)) }
	m.ready = func(ctx context.Context) error {
		return poll(ctx, func(context.Context) error { return said(m.Log, 0, "ready: ") })
	}
	if err := m.Start(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}
