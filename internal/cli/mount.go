package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/topology"
)

// mountFlags are the flags of `mount`.
type mountFlags struct {
	kernelOptions
	certs        certsChoice
	region       string
	foreground   bool
	timeout      time.Duration
	connect      time.Duration
	cacheDir     string
	cacheSize    byteSize
	memory       byteSize
	linearizable bool
	sync         bool
	soft, hard   bool
	fsName       string
	subdir       string
	takeOver     bool
	mkdir        bool
	supervised   bool
	delegate     string
	output       string
	scraped      string
	profiler     string

	mountLogs
	measured metrics.Set // of the mount
}

// mountLogs are the log of the process, for people, and the log of changes.
type mountLogs struct {
	logging *logFlags
	logFile string
	log     *serve.Log // of changes that are not ordered; nil: the mount holds no directories
}

func newMount(logging *logFlags) *cobra.Command {
	f := mountFlags{mountLogs: mountLogs{logging: logging}, cacheSize: attach.DefaultDiskCacheBytes, memory: attach.DefaultCacheBytes}
	cmd := &cobra.Command{
		Use:   "mount SERVER[,SERVER...][:/SUBDIR] DIR",
		Short: "Mount the tree of a cluster",
		Long: `mount mounts the tree of a cluster at DIR, and returns when it can be used. A process in the background serves the mount until
'globalfs umount DIR'. Each SERVER is the HOST:PORT of a server of the cluster; one that answers is enough. With :/SUBDIR it mounts that
directory of the tree. You can also give all flags as mount options: -o region=eu-west-1,timeout=1m. In /etc/fstab:

  n1:7420,n2:7420  /mnt/globalfs  fuse.globalfs  _netdev,nofail,certs=/etc/globalfs/certs  0 0`,
		Example: `  globalfs mount 10.1.0.1:7420,10.2.0.1:7420 /mnt/globalfs --certs /etc/globalfs/certs
  globalfs mount --foreground 127.0.0.1:7420 /mnt/globalfs
  globalfs mount 10.1.0.1:7420:/eu-west-1/home /home
  globalfs mount --take-over 10.1.0.1:7420 /mnt/globalfs        # a new version goes on with a mount in use
  mount -t fuse.globalfs 10.1.0.1:7420 /mnt/globalfs -o certs=/etc/globalfs/certs,region=eu-west-1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if d := cmd.Flag("delegate"); len(args) == 3 && d.Changed && d.Value.String() == d.NoOptDefVal {
				return command.UsageError(errors.New("--delegate takes its value after '=': give --delegate=near, --delegate=all or --delegate=none"))
			}
			return twoArguments("SERVERs and a DIR, such as 10.1.0.1:7420 /mnt/globalfs")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.setOptions(cmd); err != nil {
				return err
			}
			if f.remount {
				return f.changeFlags(args[1])
			}
			if err := command.CheckChoices(cmd); err != nil {
				return err
			}
			if !cmd.Flags().Changed("delegate") && (f.sync || f.linearizable) {
				f.delegate = delegateNone
			}
			return f.run(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.options, "option", "o", nil, "mount options: the other flags without their dashes, and those of the kernel, such as noexec; with remount: change them in use")
	f.certs.register(cmd)
	flags.BoolVar(&f.mkdir, "mkdir", false, "create DIR if it does not exist")
	flags.StringVar(&f.region, "region", "", "region of this machine (default: that of the server that answers first)")
	flagValues(cmd, "region", regionNames)
	flags.BoolVar(&f.foreground, "foreground", false, "serve in this process, until Ctrl-C")
	command.DurationVar(flags, &f.timeout, "timeout", 30*time.Second, "time limit of one operation while the servers do not answer; then it fails with ETIMEDOUT")
	flags.BoolVar(&f.hard, "hard", false, "operations wait until servers answer, however long; a signal that ends the program ends them within --timeout")
	flags.BoolVar(&f.soft, "soft", false, "operations fail after --timeout (the default)")
	flags.BoolVar(&f.flags.ReadOnly, "ro", false, "mount read-only")
	flags.StringVar(&f.fsName, "fsname", "", "the source that df and findmnt show (default: the SERVERs)")
	flags.BoolVar(&f.takeOver, "take-over", false, "take the mount at DIR over from the process that serves it, of this version or an older one: programs notice nothing")
	command.DurationVar(flags, &f.connect, "connect-timeout", 10*time.Second, "how long to wait for a server")
	flags.StringVar(&f.cacheDir, "cache-dir", cacheAuto, "directory of a cache for blocks on this machine's disk; auto: $CACHE_DIRECTORY, /var/cache/globalfs or, of other users than root, ~/.cache/globalfs, only for blocks that are far away; none: no cache")
	flags.Var(&f.cacheSize, "cache-size", "size limit of --cache-dir, at least 16MiB; with auto also a tenth of the free space")
	flags.Var(&f.memory, "memory-cache", "size limit of the cache for blocks in memory")
	flags.BoolVar(&f.linearizable, "linearizable", false, "linearizable reads: each read observes all operations that completed before it on any mount")
	flags.BoolVar(&f.sync, "sync", false, "order each write before it returns, instead of at close, fsync or after 0.2s (always so with --linearizable, and with --supervise outside of directories that --delegate holds)")
	flags.StringVar(&f.delegate, "delegate", delegateNear, "in which directories, if only this mount works there, changes return before the servers have ordered them (fsync and 'globalfs sync' wait for the order; if the process of the mount dies, another one orders these changes). near: directories with all replicas in the region of this machine; all: also far and global ones; none: each change waits for its order, as always with --sync, with --linearizable and with a certificate without --root")
	flags.Lookup("delegate").NoOptDefVal = delegateAll
	command.Choice(cmd, flags, "delegate", delegateNear, delegateAll, delegateNone)
	flags.BoolVar(&f.supervised, "supervise", false, "start another process for the mount if the one that serves it dies; needs Linux 6.9")
	flags.StringVar(&f.logFile, "log-file", "", "log of the process in the background (default: /var/log/globalfs.log, or of other users than root ~/.local/state/globalfs/mount.log)")
	flags.StringVar(&f.output, "output", "text", "text or json: the result when the tree can be used")
	command.Choice(cmd, flags, "output", "text", "json")
	flags.StringVar(&f.scraped, "metrics", "", "serve /metrics at this address, such as 127.0.0.1:9465 (no authentication)")
	flags.StringVar(&f.profiler, "pprof", "", "serve Go's profiler at this loopback address, such as 127.0.0.1:6060")
	return cmd
}

// Values of --delegate.
const (
	delegateNear = "near"
	delegateAll  = "all"
	delegateNone = "none"
)

// Values of --cache-dir that are no directories.
const (
	cacheAuto = "auto"
	cacheNone = "none"
)

func (f *mountFlags) run(cmd *cobra.Command, args []string) error {
	dir, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	if topology.CheckAddress(args[0]) != nil && topology.CheckAddress(args[1]) == nil {
		return command.UsageError(fmt.Errorf("mount: give the SERVERs before the DIR: 'globalfs mount %s %s'", args[1], args[0]))
	}
	servers, subdir, _ := strings.Cut(args[0], ":/")
	f.subdir = subdir
	if err := f.check(cmd.Context(), strings.Split(servers, ","), dir); err != nil {
		return err
	}
	if !f.foreground && !isDaemon() {
		if err := daemonize(cmd.Context(), cmd.ErrOrStderr(), f.logFile); err != nil || f.output != "json" {
			return err
		}
		return command.PrintJSON(cmd.OutOrStdout(), map[string]string{"mounted": dir})
	}
	logger, err := f.logging.logger()
	if err != nil {
		return err
	}
	logger = logger.With("mount", dir) // several mounts share a log
	if f.fsName == "" {
		f.fsName = args[0]
	}
	if f.supervised && !serve.IsHeld() {
		return supervise(cmd.Context(), logger)
	}
	return f.serve(cmd.Context(), strings.Split(servers, ","), dir, cmd.OutOrStdout(), logger)
}

// check refuses invalid values before any wait or start.
func (f *mountFlags) check(ctx context.Context, servers []string, dir string) error {
	if f.soft && f.hard {
		return command.UsageError(errors.New("--soft and --hard: choose one"))
	}
	if f.delegate != delegateNone && (f.sync || f.linearizable) {
		return command.UsageError(errors.New("--delegate answers changes before they are ordered: it cannot be used with --sync or --linearizable"))
	}
	if f.cacheDir != "" && int64(f.cacheSize) < diskcache.MinBytes {
		return command.InputError(fmt.Errorf("--cache-size %s: give at least %s", size(uint64(f.cacheSize)), size(diskcache.MinBytes)))
	}
	if serve.IsHeld() { // another process of this command has checked, and the mount exists
		return nil
	}
	if f.takeOver {
		if err := checkMounted("--take-over", dir); err != nil {
			return err
		}
	}
	if !f.takeOver { // during a takeover the earlier process has the addresses open
		if err := checkHTTP(f.scraped, f.profiler); err != nil {
			return err
		}
	}
	files, err := f.certs.find("", identity.Client)
	if err != nil {
		return err
	}
	if err := checkServers(ctx, servers, files != identity.Files{}, f.connect); err != nil {
		return err
	}
	if f.takeOver {
		return nil
	}
	return checkMountPoint(dir, f.mkdir)
}
