package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/topology"
)

// Mount is a mount of the cluster, served by a process in the foreground.
type Mount struct {
	*Process
	Dir string
}

// Mount makes a directory and mounts the tree there for a client in a region. In a laboratory the mount runs
// on the given host.
func (c *Cluster) Mount(ctx context.Context, region topology.Region, host, dir string, flags ...string) (*Mount, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	m := &Mount{Dir: dir, Process: &Process{
		Name: "mount in " + string(region), Log: c.path(strings.ReplaceAll(strings.Trim(dir, "/"), "/", "_") + ".log"),
		Env: []string{"CACHE_DIRECTORY=" + c.path("cache")}, // not that of the machine
		ready: func(ctx context.Context) error {
			return poll(ctx, func(context.Context) error { return mounted(dir) })
		},
	}}
	more, err := c.profiled(m.Process, host)
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"mount", "--foreground", "--certs", c.Certs(), "--region", string(region), strings.Join(c.seeds(region), ","), dir}, flags, more)
	m.command = func(ctx context.Context) *exec.Cmd { return c.on(ctx, host, args...) }
	c.mu.Lock()
	c.mounts = append(c.mounts, m)
	c.mu.Unlock()
	return m, m.Start(ctx)
}

// seeds returns the addresses of all servers, the ones in a region first.
func (c *Cluster) seeds(region topology.Region) (near []string) {
	var far []string
	for _, name := range c.Names() {
		if strings.HasPrefix(name, string(region)) {
			near = append(near, c.addresses[name])
		} else {
			far = append(far, c.addresses[name])
		}
	}
	return append(near, far...)
}

// fuseMagic is the type of FUSE in statfs.
const fuseMagic = 0x65735546

// mounted returns an error if nothing is mounted at dir.
func mounted(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err
	}
	if s.Type != fuseMagic {
		return fmt.Errorf("%s is not mounted", dir)
	}
	return nil
}

// Close unmounts by stopping the process. If the mount still exists then, Close removes it and returns an
// error.
func (m *Mount) Close() error {
	err := m.Stop()
	if mounted(m.Dir) == nil || errors.Is(mounted(m.Dir), unix.ENOTCONN) {
		err = errors.Join(err, fmt.Errorf("%s was left mounted", m.Dir), unix.Unmount(m.Dir, unix.MNT_DETACH|unix.MNT_FORCE))
	}
	return err
}
