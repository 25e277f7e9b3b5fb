package geo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
	"github.com/globalfs/globalfs/test/wan"
)

// The measured places.
const (
	local  = "local"  // the partition of the client's region
	global = "global" // the partition of all regions
)

// stage is a running setting.
type stage struct {
	name    string
	posts   []*post            // the measured mounts
	servers []*cluster.Process // all processes except the measured mounts
	lab     *wan.Lab           // nil: none
	closers []func() error     // in the order in which they were opened
}

// post is a measured mount.
type post struct {
	region topology.Region
	mount  *cluster.Mount
	dirs   map[string]string // by place
}

func (s *stage) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// start starts a setting. The error is wan.ErrUnavailable if the laboratory cannot run here.
func (c *Config) start(ctx context.Context, setting string) (_ *stage, err error) {
	s := &stage{name: setting}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	spec := c.spec()
	cfg := cluster.Config{
		Program: c.Program, Etcd: c.Etcd, Dir: filepath.Join(c.Dir, setting), Regions: spec.Regions, Datacenters: spec.Datacenters, Replicas: spec.Replicas,
		Copies: spec.Copies, Profiled: c.Profile != "",
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	var flags []string // of the mounts
	if c.Sync {
		flags = []string{"--sync"}
	}
	switch setting {
	case Embedded:
		err = s.embedded(ctx, cfg)
	case EmbeddedGRPC:
		err = s.embedded(ctx, cfg, "--transport", "grpc")
	case EmbeddedWAN:
		err = s.embedded(ctx, cfg, "--wan")
	case Loopback:
		err = s.processes(ctx, cfg, flags...)
	case LoopbackSync:
		cfg.Durability = "sync"
		err = s.processes(ctx, cfg, flags...)
	case LoopbackTRAM, LoopbackSoft:
		cfg.Durability, cfg.LocalOrder = "sync", string(topology.LocalTRAM)
		if setting == LoopbackSoft {
			cfg.Memory = string(topology.MemorySoft)
		}
		err = s.processes(ctx, cfg, flags...)
	case Lab:
		if err := s.laboratory(&cfg); err != nil {
			return nil, err
		}
		err = s.processes(ctx, cfg, flags...)
	}
	if err != nil {
		return nil, err
	}
	return s, s.makeDirs()
}

func (s *stage) embedded(ctx context.Context, cfg cluster.Config, flags ...string) error {
	m, err := cluster.Embedded(ctx, cfg, filepath.Join(cfg.Dir, "mnt"), flags...)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, m.Close)
	s.posts = []*post{{region: cfg.Regions[0], mount: m}}
	return nil
}

// laboratory makes a host for each server, and one for the mount of each region.
func (s *stage) laboratory(cfg *cluster.Config) (err error) {
	var hosts []wan.Host
	for _, r := range cfg.Regions {
		hosts = append(hosts, wan.Host{Name: mountHost(r), Region: r})
		for _, name := range cfg.Servers(r) {
			hosts = append(hosts, wan.Host{Name: name, Region: r})
		}
	}
	if s.lab, err = wan.New(wan.Config{Hosts: hosts}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.lab.Close)
	cfg.Lab = s.lab
	return nil
}

func mountHost(r topology.Region) string { return "mount-" + string(r) }

// processes starts a cluster and a mount in each region, with flags. Without delays all regions are alike,
// and only the first is measured.
func (s *stage) processes(ctx context.Context, cfg cluster.Config, flags ...string) error {
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, c.Close)
	for _, name := range c.Names() {
		s.servers = append(s.servers, c.Servers[name])
	}
	s.servers = append(s.servers, c.Etcd)
	for i, r := range cfg.Regions {
		m, err := c.Mount(ctx, r, mountHost(r), filepath.Join(cfg.Dir, "mnt-"+string(r)), flags...)
		if err != nil {
			return err
		}
		if i == 0 || s.lab != nil {
			s.posts = append(s.posts, &post{region: r, mount: m})
		}
	}
	return nil
}

// makeDirs makes the working directories.
func (s *stage) makeDirs() error {
	for _, p := range s.posts {
		p.dirs = map[string]string{
			local:  filepath.Join(p.mount.Dir, string(p.region), "bench"),
			global: filepath.Join(p.mount.Dir, "bench-"+string(p.region)),
		}
		for _, dir := range p.dirs {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// Parts of a cluster for the division of CPU time.
const (
	partAll   = "all"   // the embedded cluster with its mount
	partMount = "mount" // the measured mount
	partNear  = "near"  // servers in the region of the mount
	partFar   = "far"   // servers in other regions
	partEtcd  = "etcd"
)

// parts returns the processes that a measurement at p uses, by part.
func (s *stage) parts(p *post) map[string][]*cluster.Process {
	if len(s.servers) == 0 {
		return map[string][]*cluster.Process{partAll: {p.mount.Process}}
	}
	parts := map[string][]*cluster.Process{partMount: {p.mount.Process}}
	for _, server := range s.servers {
		part := partFar
		switch {
		case server.Name == "etcd":
			part = partEtcd
		case strings.HasPrefix(server.Name, string(p.region)):
			part = partNear
		}
		parts[part] = append(parts[part], server)
	}
	return parts
}

// where returns a text for people that identifies a post.
func (s *stage) where(p *post) string { return fmt.Sprintf("%s from %s", s.name, p.region) }
