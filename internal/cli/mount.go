package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/topology"
)

// mountFlags are those of `mount`.
type mountFlags struct {
	options      []string
	certs        string
	region       string
	foreground   bool
	timeout      time.Duration
	connect      time.Duration
	cacheDir     string
	cacheSize    byteSize
	memory       byteSize
	linearizable bool
	logFile      string
}

func newMount(logging *logFlags) *cobra.Command {
	f := mountFlags{cacheSize: attach.DefaultDiskCacheBytes, memory: attach.DefaultCacheBytes}
	cmd := &cobra.Command{
		Use:   "mount SERVER[,SERVER...] DIR",
		Short: "Mount the tree of a cluster",
		Long: `mount mounts the tree at DIR, and returns when it can be used; a process in the background serves it until 'globalfs umount DIR'.
SERVERs are HOST:PORT of some servers of the cluster: one that answers is enough. All flags can also be given as mount options:
-o region=eu-west-1,timeout=1m. In /etc/fstab:

  n1:7420,n2:7420  /mnt/globalfs  fuse.globalfs  _netdev,nofail,certs=/etc/globalfs/certs  0 0`,
		Example: `  globalfs mount 10.1.0.1:7420,10.2.0.1:7420 /mnt/globalfs --certs /etc/globalfs/certs
  globalfs mount --foreground 127.0.0.1:7420 /mnt/globalfs
  mount -t fuse.globalfs 10.1.0.1:7420 /mnt/globalfs -o certs=/etc/globalfs/certs,region=eu-west-1`,
		Args: twoArguments("SERVERs and a DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setOptions(cmd, f.options); err != nil {
				return err
			}
			return f.run(cmd, args, logging)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.options, "option", "o", nil, "mount options: the other flags without their dashes")
	flags.StringVar(&f.certs, "certs", "", "directory with ca.pem and a client's certificate that 'globalfs certs' has made")
	flags.StringVar(&f.region, "region", "", "where this machine is (default: that of the server that answers first)")
	flags.BoolVar(&f.foreground, "foreground", false, "serve in this process, until Ctrl-C")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "of one operation; then it fails with ETIMEDOUT")
	flags.DurationVar(&f.connect, "connect-timeout", 10*time.Second, "how long is waited for a server")
	flags.StringVar(&f.cacheDir, "cache-dir", "", "also remember blocks on this machine's disk, in this directory")
	flags.Var(&f.cacheSize, "cache-size", "how much of the disk --cache-dir may take, at least 16MiB")
	flags.Var(&f.memory, "memory-cache", "how much memory is used to remember blocks")
	flags.BoolVar(&f.linearizable, "linearizable", false, "what is read is as new as all that ended before anywhere")
	flags.StringVar(&f.logFile, "log-file", "", "where the process in the background logs to (default: nowhere)")
	return cmd
}

// ignored are options that mount(8) and systemd use for themselves.
var ignored = map[string]bool{
	"rw": true, "defaults": true, "auto": true, "noauto": true, "nofail": true, "_netdev": true, "user": true, "users": true, "nouser": true, "owner": true,
	"dev": true, "nodev": true, "suid": true, "nosuid": true, "exec": true, "async": true, "relatime": true, "noatime": true, "allow_other": true,
}

// setOptions sets the flags that -o names.
func setOptions(cmd *cobra.Command, options []string) error {
	for _, o := range options {
		name, value, valued := strings.Cut(o, "=")
		switch {
		case ignored[name] || strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "comment"):
			continue
		case !valued:
			value = "true"
		}
		flag := cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-"))
		if flag == nil || flag.Name == "option" {
			return usageError{fmt.Errorf("-o %s: there is no such option; see 'globalfs mount --help'", name)}
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			return usageError{fmt.Errorf("-o %s: %w", o, err)}
		}
	}
	return nil
}

func (f *mountFlags) run(cmd *cobra.Command, args []string, logging *logFlags) error {
	dir, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	if !f.foreground && !isDaemon() {
		return daemonize(cmd.Context(), cmd.ErrOrStderr(), f.logFile)
	}
	logger, err := logging.logger()
	if err != nil {
		return err
	}
	return f.serve(cmd.Context(), strings.Split(args[0], ","), dir, cmd.OutOrStdout(), logger)
}

// serve mounts, and serves until ctx ends or somebody unmounts.
func (f *mountFlags) serve(ctx context.Context, servers []string, dir string, out io.Writer, logger *slog.Logger) (err error) {
	for _, s := range servers {
		if err := topology.CheckAddress(s); err != nil {
			return inputError{err}
		}
	}
	cfg := daemon.AccessConfig{Servers: servers, Timeout: f.connect, Logger: logger}
	if f.certs != "" {
		if cfg.Certificates, err = findCertificate(f.certs, identity.Client); err != nil {
			return inputError{err}
		}
	}
	a, err := daemon.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	c, end, err := f.client(ctx, a, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	m, err := f.mount(a, c, dir, logger)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var follows sync.WaitGroup
	follows.Go(func() { a.Follow(following, c) })
	if f.foreground {
		fmt.Fprintf(out, "ready: %s\n", dir)
	}
	notifyReady()
	tellParent()
	m.waitUntil(ctx)
	err = m.Unmount()
	stop()
	follows.Wait()
	return err
}

// client makes the client, and gives what closes it and all that it uses.
func (f *mountFlags) client(ctx context.Context, a *daemon.Access, logger *slog.Logger) (_ *attach.Client, end func() error, err error) {
	objects, err := attach.OpenObjects(ctx, a.Cluster(), true)
	if err != nil {
		return nil, nil, err
	}
	disk, err := attach.OpenDiskCache(f.cacheDir, int64(f.cacheSize), a.Cluster(), logger)
	if err != nil {
		return nil, nil, errors.Join(err, objects.Close())
	}
	end = func() error {
		err := objects.Close()
		if disk != nil {
			err = errors.Join(err, disk.Close())
		}
		return err
	}
	region := topology.Region(f.region)
	if region == "" {
		region = a.Region()
	}
	c, err := a.Client(daemon.ClientConfig{
		Region: region, CacheBytes: int(f.memory), Disk: disk, Objects: objects, Linearizable: f.linearizable, Timeout: f.timeout,
	})
	if err != nil {
		return nil, nil, errors.Join(inputError{err}, end())
	}
	return c, func() error { return errors.Join(c.Close(), end()) }, nil
}

// aMount is a mount that is waited for.
type aMount struct{ *mount.Mount }

// waitUntil returns when ctx ends or somebody has unmounted.
func (m aMount) waitUntil(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Wait()
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
}

func (f *mountFlags) mount(a *daemon.Access, c *attach.Client, dir string, logger *slog.Logger) (aMount, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return aMount{}, fmt.Errorf("mount point: %w", err)
	}
	g, err := collector.New(collector.Config{Metadata: c.Client, Regions: c.Regions, Logger: logger})
	if err != nil {
		return aMount{}, err
	}
	cfg := mount.Config{Client: c.Client, Dir: dir, Logger: logger, Collector: g, Storage: a}
	if f.linearizable {
		cfg.CacheTime = -1 // what the kernel believed could be old
	}
	m, err := mount.New(cfg)
	return aMount{m}, err
}
