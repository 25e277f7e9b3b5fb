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

// Embedded runs the whole cluster in one process instead, without etcd, certificates and a laboratory, with
// the tree mounted at a directory, which is made, as a client in the first region: `globalfs dev` with some
// more flags.
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
