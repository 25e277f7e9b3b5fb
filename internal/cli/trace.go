package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/trace"
)

// traceFlags are the flags of trace.
type traceFlags struct {
	access  accessFlags
	logging *logFlags
	op      string
	after   time.Duration
	output  string
}

func newTrace(logging *logFlags) *cobra.Command {
	f := traceFlags{logging: logging}
	cmd := &cobra.Command{
		Use:   "trace DIR",
		Short: "Show the steps of one operation in the mount and in all servers, with their times",
		Long: `trace makes one operation in DIR, a directory on a mounted tree, and prints its steps in the order of their times: the requests of the kernel, the
calls of the mount, and the turns of the replicas (input, log, frames, execution, answer). The operation runs twice, in a directory of its own
below DIR, which is removed; the second run is shown. Run it as root or as the user of the mount.

The servers require the certificate of an admin. Without the servers, trace prints the part of the mount, and fails. Clocks of other machines are
estimated by calls; the last lines tell the error of the estimate. Other work of the same partitions appears in the trace: use an idle cluster.`,
		Example: `  globalfs trace --op create ~/globalfs
  globalfs trace --op fsync --config cluster.yaml /mnt/globalfs/home
  globalfs trace --op rename -o json ~/globalfs | jq '.events[] | [.at_us, .where, .step] | @tsv'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(errors.New("trace: give the DIR of a directory on a mounted tree"))
			}
			return nil
		},
		RunE: f.run,
	}
	f.access.register(cmd)
	outputFlag(cmd, &f.output)
	cmd.Flags().StringVar(&f.op, "op", "create", "the operation: "+strings.Join(traceOpNames(), ", "))
	command.Choice(cmd, cmd.Flags(), "op", traceOpNames()...)
	command.DurationVar(cmd.Flags(), &f.after, "after", 50*time.Millisecond, "how long the processes are watched after the operation: for the other replicas, and for work in the background")
	return cmd
}

// traceReport is a trace for scripts.
type traceReport struct {
	Op      string        `json:"op"`
	TookUS  float64       `json:"took_us"` // as the program sees it
	Events  []tracedEvent `json:"events"`  // by time
	Servers []tracedClock `json:"servers"`
	Dropped int           `json:"dropped,omitempty"` // events that did not fit
}

// tracedEvent is an event of any process.
type tracedEvent struct {
	AtUS   float64 `json:"at_us"` // since the begin of the operation
	TookUS float64 `json:"took_us"`
	Where  string  `json:"where"`
	trace.Event
}

// tracedClock is the clock of a server against that of this machine.
type tracedClock struct {
	Server   string          `json:"server"`
	Region   topology.Region `json:"region"`
	AheadUS  float64         `json:"ahead_us"`
	WithinUS float64         `json:"within_us"`
	Error    string          `json:"error,omitempty"`
}

func (f *traceFlags) run(cmd *cobra.Command, args []string) error {
	if f.after < 0 || f.after > trace.MaxTime/2 {
		return command.UsageError(fmt.Errorf("--after %v: at most %v", f.after, trace.MaxTime/2))
	}
	if info, err := os.Stat(args[0]); errors.Is(err, os.ErrNotExist) {
		return command.InputError(fmt.Errorf("%s does not exist: give a directory on a mounted tree", args[0]))
	} else if err == nil && !info.IsDir() {
		return command.InputError(fmt.Errorf("%s is not a directory: give a directory on a mounted tree", args[0]))
	}
	logger, err := f.logging.logger()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	a, noServers := f.access.open(ctx, logger, identity.Admin, identity.Client)
	if a != nil {
		defer func() { _ = a.Close() }() // it only ends connections
	}
	if ctx.Err() != nil {
		return errors.New("trace: interrupted")
	}
	report, err := f.trace(ctx, a, args[0])
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = command.PrintJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.print(cmd.OutOrStdout())
	}
	if noServers != nil {
		noServers = fmt.Errorf("only the part of the mount is shown: %w", noServers)
	}
	return errors.Join(err, noServers)
}

// trace traces the operation. Without a cluster it asks the mount only.
func (f *traceFlags) trace(ctx context.Context, a *daemon.Access, dir string) (*traceReport, error) {
	if _, err := getControl(ctx, dir, mount.XattrCounters); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(dir, ".globalfs-trace-")
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var report *traceReport
	go func() {
		defer close(done)
		report, err = f.traceIn(ctx, a, work)
		err = errors.Join(err, os.RemoveAll(work))
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(traceGrace):
			return nil, fmt.Errorf("trace: interrupted, and the mount does not answer: remove %s", work)
		}
	}
	if ctx.Err() != nil {
		return nil, errors.New("trace: interrupted")
	}
	return report, err
}

// traceGrace is the time for the removal of the working directory after Ctrl-C.
const traceGrace = 3 * time.Second

// traceIn traces the operation in the empty directory work. It runs in a goroutine of its own.
func (f *traceFlags) traceIn(ctx context.Context, a *daemon.Access, work string) (*traceReport, error) {
	op := traceOps[f.op]
	if err := op.try(work, "first"); err != nil { // caches are warm, and sessions are open, as usual
		return nil, err
	}
	if err := op.prepare(work, "second"); err != nil {
		return nil, err
	}
	var tracing *daemon.Tracing
	if a != nil {
		tracing = a.Trace(ctx, trace.MaxTime)
	}
	began, took, recording, err := op.record(ctx, work, "second", f.after)
	var servers []daemon.Traced
	if tracing != nil {
		servers = tracing.Stop(ctx)
	}
	if err != nil {
		return nil, err
	}
	report := &traceReport{Op: f.op, TookUS: microseconds(took), Events: []tracedEvent{}, Servers: []tracedClock{}}
	partitions := report.addMount(began, began.Add(took+f.after), recording)
	for i := range servers {
		report.addServer(began, &servers[i], partitions)
	}
	slices.SortStableFunc(report.Events, func(a, b tracedEvent) int { return cmp.Compare(a.AtUS, b.AtUS) })
	return report, nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// addMount adds the events of the mount between began and end. It returns the partitions to which the mount
// sent requests.
func (r *traceReport) addMount(began, end time.Time, got *trace.Recording) map[uint16]bool {
	partitions := map[uint16]bool{}
	for _, e := range got.Events {
		if e.Thread != 0 && e.At.Before(began) || e.At.After(end) { // of this command itself
			continue
		}
		if e.Partition != nil {
			partitions[*e.Partition] = true
		}
		r.add(began, "mount", e)
	}
	r.Dropped += got.Dropped
	return partitions
}

// addServer adds the events of a server in some partitions.
func (r *traceReport) addServer(began time.Time, s *daemon.Traced, partitions map[uint16]bool) {
	clock := tracedClock{Server: s.Server, Region: s.Region, AheadUS: microseconds(s.Ahead), WithinUS: microseconds(s.Within)}
	if s.Err != nil {
		clock.Error = s.Err.Error()
	}
	r.Servers = append(r.Servers, clock)
	r.Dropped += s.Recording.Dropped
	for _, e := range s.Recording.Events {
		if e.Partition == nil || partitions[*e.Partition] {
			e.At = e.At.Add(-s.Ahead)
			r.add(began, s.Server, e)
		}
	}
}

// add adds an event that does not end before the operation has begun.
func (r *traceReport) add(began time.Time, where string, e trace.Event) {
	if e.At.Add(e.Took).Before(began) {
		return
	}
	r.Events = append(r.Events, tracedEvent{AtUS: microseconds(e.At.Sub(began)), TookUS: microseconds(e.Took), Where: where, Event: e})
}
