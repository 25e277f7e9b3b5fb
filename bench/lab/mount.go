package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
)

// mountFlags are the flags of `globalfs-lab mount`.
type mountFlags struct {
	config  cluster.Config
	mount   []string
	held    bool
	dir     string
	measure []string // the rest of the command line
}

func newMount() *cobra.Command {
	f := mountFlags{config: cluster.Config{Regions: []topology.Region{"west"}, Datacenters: 3}}
	cmd := &cobra.Command{
		Use:   "mount [-- FLAG...]",
		Short: "'globalfs bench mount' on three server processes and two mounts of this machine, beside loopback FUSE and the local disk",
		Long: `mount starts etcd and three servers with TLS and three replicas of each partition and copies of each block, each in a process of its own, and two mounts. Then it runs
'globalfs bench mount' with go-fuse's loopback, the first mount and the local disk, and with the given FLAGs after "--". The second mount shows when a change of
the first one is seen. --delegate adds a third mount, which holds directories, in the same rounds: its rows are those of "held". The other two mounts hold none then. All data is on the disk of --data-dir and is removed at the end.`,
		Example: `  globalfs-lab mount
  globalfs-lab mount --durability os -- --measures create,stat --clients 1,8 --output json
  globalfs-lab mount --delegate -- --measures create,unlink
  globalfs-lab mount -- --tar httpd-2.4.62.tar.gz --configure ~/bc-1.07.1 --out bench/results`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.measure = args
			return f.run(cmd)
		},
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringVar(&c.Durability, "durability", "sync", "of the servers: sync, the default of 'globalfs init', or os")
	flags.IntVar(&c.Replicas, "replicas", 3, "of each partition: 1 or 3")
	flags.IntVar(&c.Copies, "copies", 3, "of each block: 1 to 3")
	flags.StringVar(&c.Fabric, "fabric", "auto", "of the servers: auto or off")
	flags.IntVar(&c.Partitions, "partitions", 1, "of the region, over which directories spread")
	flags.StringSliceVar(&f.mount, "mount-options", nil, "options of both mounts, as after 'globalfs mount -o'")
	flags.BoolVar(&f.held, "delegate", false, "measure a mount that holds directories beside one that holds none")
	flags.StringVar(&c.Program, "globalfs", "", "the globalfs program (default: that beside this program, or in PATH)")
	flags.StringVar(&c.Etcd, "etcd", "", "the etcd program (default: that in PATH, or what deploy/deps.sh has fetched)")
	flags.StringVar(&f.dir, "data-dir", "", "where the cluster keeps its data, deleted at the end (default: a temporary directory)")
	return cmd
}

func (f *mountFlags) validate() (err error) {
	c := &f.config
	switch {
	case c.Durability != "sync" && c.Durability != "os":
		return command.InputError(fmt.Errorf("--durability %q: give sync or os", c.Durability))
	case c.Fabric != string(topology.FabricAuto) && c.Fabric != string(topology.FabricOff):
		return command.InputError(fmt.Errorf("--fabric %q: give auto or off", c.Fabric))
	case c.Replicas != 1 && c.Replicas != 3:
		return command.InputError(fmt.Errorf("--replicas %d: give 1 or 3", c.Replicas))
	case c.Copies < 1 || c.Copies > 3:
		return command.InputError(fmt.Errorf("--copies %d: give 1 to 3", c.Copies))
	}
	if c.Etcd == "" {
		if c.Etcd, err = cluster.FindEtcd(); err != nil {
			return command.InputError(fmt.Errorf("%w: run deploy/deps.sh test, or give --etcd PATH", err))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.Program, err = findProgram(c.Program, filepath.Dir(self))
	return err
}

func (f *mountFlags) run(cmd *cobra.Command) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	work, err := os.MkdirTemp(f.dir, "globalfs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	f.config.Dir = filepath.Join(work, "cluster")
	loopback, disk := filepath.Join(work, "loopback"), filepath.Join(work, "disk")
	if err := errors.Join(os.Mkdir(f.config.Dir, 0o700), os.Mkdir(loopback, 0o755), os.Mkdir(disk, 0o755)); err != nil {
		return err
	}
	ctx, say := cmd.Context(), stopwatch(cmd)
	say(fmt.Sprintf("three servers, %d replicas, %d copies, durability %s, TLS", f.config.Replicas, f.config.Copies, f.config.Durability))
	c, err := cluster.Start(ctx, f.config)
	if err != nil {
		return command.Interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	mounts, err := f.mounts(ctx, c, work)
	if err != nil {
		return command.Interrupted(ctx, err)
	}
	say("globalfs bench mount")
	args := append([]string{"bench", "mount", "--loopback", loopback}, mounts...)
	args = append(args, "disk="+disk)
	return command.Interrupted(ctx, f.child(cmd, append(args, f.measure...)...))
}

// mounts makes the mounts, and returns the arguments of 'globalfs bench mount' for their directories.
func (f *mountFlags) mounts(ctx context.Context, c *cluster.Cluster, work string) (args []string, err error) {
	var flags []string
	for _, o := range f.mount {
		flags = append(flags, "-o", o)
	}
	ordered := flags
	if f.held { // beside the third mount
		ordered = append(slices.Clip(flags), "--delegate=none")
	}
	second, err := f.mountOf(ctx, c, filepath.Join(work, "mount-2"), ordered)
	if err != nil {
		return nil, err
	}
	first, err := f.mountOf(ctx, c, filepath.Join(work, "mount-1"), ordered)
	if err != nil {
		return nil, err
	}
	names, dirs := []string{"globalfs"}, []string{first}
	if f.held {
		third, err := f.mountOf(ctx, c, filepath.Join(work, "mount-3"), append(slices.Clip(flags), "--delegate=all"))
		if err != nil {
			return nil, err
		}
		names, dirs = append(names, "held"), append(dirs, third)
	}
	for i, name := range names {
		if err := os.Mkdir(filepath.Join(dirs[i], name), 0o755); err != nil {
			return nil, err
		}
		args = append(args, "--second", name+"="+filepath.Join(second, name), name+"="+filepath.Join(dirs[i], name))
	}
	return args, nil
}

// mountOf makes a mount, and returns the directory of the region in it.
func (f *mountFlags) mountOf(ctx context.Context, c *cluster.Cluster, dir string, flags []string) (string, error) {
	region := f.config.Regions[0]
	m, err := c.Mount(ctx, region, "", dir, flags...)
	if err != nil {
		return "", err
	}
	return filepath.Join(m.Dir, string(region)), nil
}

// child runs the product's binary with this command's output. At the end of the context it sends SIGTERM.
func (f *mountFlags) child(cmd *cobra.Command, args ...string) error {
	child := exec.CommandContext(cmd.Context(), f.config.Program, args...)
	child.Stdout, child.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	return child.Run()
}
