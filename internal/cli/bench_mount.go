package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/bench/compare"
	"github.com/globalfs/globalfs/internal/command"
)

// benchMountFlags are the flags of `bench mount`.
type benchMountFlags struct {
	config   compare.Config
	size     byteSize
	loopback string
	pids     []string
	second   []string
	output   command.Output
	out      string
}

func newBenchMount() *cobra.Command {
	f := benchMountFlags{size: 64 << 20}
	cmd := &cobra.Command{
		Use:   "mount [NAME=]DIR...",
		Short: "Compare directories: mounts, local disks, loopback FUSE",
		Long: `mount runs the same work in each DIR, and prints rates, latencies and the ratio to the first directory. A DIR is on a GlobalFS mount, on another
file system or on a local disk. --loopback adds go-fuse's loopback file system on a local directory as the first directory. It shows the
cost of FUSE alone.

All directories take turns in each round, so a disturbance of the machine affects all of them. A measure ends with a barrier: fsync of all
directories that the work has touched, and syncfs. Its time counts. Each client works in a directory of its own. The measures, in their order:

  create, stat, readdir (one listing), rename, unlink    empty files
  create-1k, create-1k-fsync                             create, write 1 KB (and fsync), close
  write-1m, read-1m                                      a large file in sequence, in pieces of 1 MiB; the kernel drops its pages before the read
  random-write-4k, random-read-4k                        4 KiB at random offsets of this file
  seen-create, seen-rename, seen-unlink, seen-write      the time from the end of a change until the mount of --second shows it; that mount has looked before
  untar, rm-rf                                           tar and rm on the archive of --tar
  configure, make                                        ./configure and make on a copy of the sources of --configure; 'make' without -j

CPU is the time of one operation over all processes that serve the directory: the process of the mount and the servers of its cluster on this
machine, or the processes that --pid names. To see processes of other users, run it as root. "requests" are those of the kernel, "queries" the reads of metadata,
and "commands" the ordered commands that a GlobalFS mount sent for one operation. An interrupted run prints no result, and removes its working directories,
DIR/globalfs-bench-*.`,
		Example: `  globalfs bench mount --loopback /var/tmp /mnt/globalfs
  globalfs bench mount --measures create,stat --clients 1,8,32 disk=/var/tmp globalfs=/mnt/globalfs
  globalfs bench mount --tar httpd-2.4.62.tar.gz --configure ~/bc-1.07.1 --loopback /var/tmp /mnt/globalfs
  globalfs bench mount --pid other=4711,4712 other=/mnt/other /mnt/globalfs --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && f.loopback == "" {
				return command.UsageError(fmt.Errorf("%s: give at least one DIR", cmd.CommandPath()))
			}
			return nil
		},
		RunE: f.run,
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&c.Measures, "measures", nil, "the measures to run, such as create,stat (default: all that the other flags permit)")
	flags.IntSliceVar(&c.Clients, "clients", []int{1, 8}, "numbers of clients, each measured by itself; untar, rm-rf, configure and make have one")
	flags.IntVar(&c.Rounds, "rounds", 3, "number of rounds in which the directories take turns")
	flags.IntVar(&c.Files, "files", 1000, "number of small files, or of random reads and writes, in each measure over all clients")
	flags.Var(&f.size, "size", "size of the large files over all clients, a multiple of 1M")
	command.DurationVar(flags, &c.Limit, "limit", 10*time.Second, "time limit of one measure in one directory and round; programs run to their end")
	flags.StringVar(&c.Tar, "tar", "", "archive for the measures untar and rm-rf")
	flags.StringVar(&c.Sources, "configure", "", "directory with sources for the measures configure and make; it is copied")
	flags.StringVar(&f.loopback, "loopback", "", "local directory below go-fuse's loopback file system, which is mounted for the run and comes first")
	flags.StringArrayVar(&f.pids, "pid", nil, "processes whose CPU time counts for a directory, as NAME=PID,PID")
	flags.StringArrayVar(&f.second, "second", nil, "the directory NAME in another mount of this machine, as NAME=DIR, for the measures seen-*")
	f.output.Register(cmd)
	flags.StringVar(&f.out, "out", "", "directory for mount.txt and mount.json as well")
	return cmd
}

func (f *benchMountFlags) run(cmd *cobra.Command, args []string) (err error) {
	ctx := cmd.Context()
	c := &f.config
	c.Size, c.Progress = int64(f.size), benchProgress(cmd.ErrOrStderr(), 2*time.Second)
	for _, arg := range args {
		d, err := benchDirectory(ctx, arg)
		if err != nil {
			return command.InputError(err)
		}
		c.Directories = append(c.Directories, d)
	}
	if f.loopback != "" {
		d, end, err := startLoopback(ctx, f.loopback)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		c.Directories = append([]compare.Directory{d}, c.Directories...)
	}
	if err := errors.Join(f.addProcesses(), f.addSecond(), f.addSources(), c.Validate()); err != nil {
		return command.InputError(err)
	}
	rows, err := compare.Run(ctx, *c)
	if err != nil {
		return command.Interrupted(ctx, err)
	}
	r := command.Result{Name: "mount", Rows: rows, Table: func(out io.Writer) error { return printCompared(out, rows) }}
	return r.Write(cmd.OutOrStdout(), f.output, f.out)
}

// benchDirectory parses a DIR of the command line.
func benchDirectory(ctx context.Context, arg string) (compare.Directory, error) {
	name, path, named := strings.Cut(arg, "=")
	if !named || strings.Contains(name, "/") {
		name, path = arg, arg
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return compare.Directory{}, err
	}
	d := compare.Directory{Name: name, Path: path}
	d.Counters, d.Processes = mountCounters(ctx, path)
	return d, nil
}

// addProcesses adds the processes of --pid.
func (f *benchMountFlags) addProcesses() error {
	for _, flag := range f.pids {
		name, list, _ := strings.Cut(flag, "=")
		d := f.directory(name)
		if d == nil {
			return fmt.Errorf("--pid %q: give NAME=PID,PID with the NAME of a directory", flag)
		}
		d.Processes = nil
		for _, text := range strings.Split(list, ",") {
			pid, err := strconv.Atoi(text)
			if err != nil || pid < 1 {
				return fmt.Errorf("--pid %q: give NAME=PID,PID with numbers of processes", flag)
			}
			d.Processes = append(d.Processes, compare.Process{Name: processName(pid), PID: pid})
		}
	}
	return nil
}

// addSources makes the paths of --tar and --configure absolute: the programs run in other directories.
func (f *benchMountFlags) addSources() (err error) {
	for _, path := range []*string{&f.config.Tar, &f.config.Sources} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// addSecond adds the directories of --second.
func (f *benchMountFlags) addSecond() error {
	for _, flag := range f.second {
		name, path, _ := strings.Cut(flag, "=")
		d := f.directory(name)
		if d == nil || path == "" {
			return fmt.Errorf("--second %q: give NAME=DIR with the NAME of a directory", flag)
		}
		var err error
		if d.Second, err = filepath.Abs(path); err != nil {
			return err
		}
	}
	return nil
}

func (f *benchMountFlags) directory(name string) *compare.Directory {
	for i := range f.config.Directories {
		if d := &f.config.Directories[i]; d.Name == name {
			return d
		}
	}
	return nil
}

// benchProgress prints a line at most each interval, the first one interval after now.
func benchProgress(out io.Writer, interval time.Duration) func(step string) {
	last := time.Now()
	return func(step string) {
		if now := time.Now(); now.Sub(last) >= interval {
			fmt.Fprintln(out, step)
			last = now
		}
	}
}

func printCompared(out io.Writer, rows []compare.Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "measure\tclients\tdirectory\tops/s\tratio\tp50 us\tp90 us\tp99 us\tbarrier s\tCPU us\trequests\tqueries\tcommands\t  CPU by process us")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%s\t%s\t%s\t%s\t  %s\n", r.Measure, r.Clients, r.Directory, rate(r.PerSecond), ratio(r.Ratio), r.P50, r.P90, r.P99,
			r.Barrier, totalCPU(r), perOperation(r.Requests), perOperation(r.Queries), perOperation(r.Commands), cpuByProcess(r))
	}
	return w.Flush()
}

// rate formats a rate. It shows a fraction for rates below 10, such as those of whole programs.
func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.3f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

func totalCPU(r *compare.Row) string {
	if len(r.CPU) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", r.TotalCPU())
}

func perOperation(n *float64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *n)
}

func cpuByProcess(r *compare.Row) string {
	var parts []string
	for _, c := range r.CPU {
		parts = append(parts, fmt.Sprintf("%s %.0f", c.Name, c.Microseconds))
	}
	return strings.Join(parts, ", ")
}
