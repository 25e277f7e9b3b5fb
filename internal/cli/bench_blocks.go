package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

// blocksFlags are the flags of `bench blocks`.
type blocksFlags struct {
	config     bench.BlocksConfig
	dir        string
	transport  string
	durability []string
	output     command.Output
	out        string
}

func newBenchBlocks() *cobra.Command {
	var f blocksFlags
	cmd := &cobra.Command{
		Use:   "blocks",
		Short: "Measure puts and gets of blocks on five storage servers, beside plain files",
		Long: `blocks starts a region of five storage servers in this process, each in a datacenter of its own. It measures puts and gets of blocks by
clients that start an operation when the last one has ended. In turns with them, the same clients append the same bytes to plain files in the
same directory, with the same durability, and read them back. There are as many plain files as copies of a block, written one after the other.
The ratio is that of the two rates: the median over the rounds.

CPU is the time of the whole process, clients and servers, for one block. Bytes written are those that the process wrote to the disk for
one block with all its copies (write_bytes less cancelled_write_bytes of /proc/self/io). They include the records, the index and its
journal, in whole pages, and no metadata of the file system. Gets of blocks and of plain files read data that is in the
memory of the kernel. The thesis (section 3.6) reports more than 8,000 puts of 1 KB and 6,500 gets of 32 KB a second, with two copies on five
machines that do not sync.`,
		Example: `  globalfs bench blocks
  globalfs bench blocks --sizes 1024 --copies 2 --clients 16 --transport grpc --durability sync
  globalfs bench blocks --durability os,sync --out bench/results`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&f.config.Sizes, "sizes", []int{1 << 10, 32 << 10, 1 << 20}, "sizes of blocks, in bytes: 1 to 1048576")
	flags.IntSliceVar(&f.config.Copies, "copies", []int{1, 2, 3}, "numbers of copies of each block: 1 to 5")
	flags.IntVar(&f.config.Clients, "clients", 8, "number of clients in each measurement")
	command.DurationVar(flags, &f.config.Duration, "duration", 2*time.Second, "duration of each measurement, and of the measurement beside it")
	flags.IntVar(&f.config.Rounds, "rounds", 5, "number of rounds into which the duration is divided; all measurements of a size take turns")
	flags.StringVar(&f.transport, "transport", "inprocess", "transport between the servers: inprocess (queues in memory) or grpc (TLS over loopback; named after an earlier protocol)")
	flags.StringSliceVar(&f.durability, "durability", []string{"os"}, "durability of a put: os (the end of the process), sync (also a loss of power); or both")
	flags.StringVar(&f.dir, "data-dir", "", "directory of the servers' disks and the plain files, deleted at the end (default: a temporary directory)")
	command.Choice(cmd, flags, "transport", "inprocess", "grpc")
	command.Choice(cmd, flags, "durability", "os", "sync")
	f.output.Register(cmd)
	flags.StringVar(&f.out, "out", "", "directory for blocks.txt and blocks.json as well")
	return cmd
}

func (f *blocksFlags) validate() error {
	return f.config.Validate()
}

func (f *blocksFlags) run(cmd *cobra.Command) (err error) {
	if err := f.validate(); err != nil {
		return command.InputError(err)
	}
	work, err := os.MkdirTemp(f.dir, "globalfs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var rows []bench.BlocksRow
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		rows, err = f.measure(cmd.Context(), work, steps(meter, f.steps()))
		return err
	})
	r := command.Result{Name: "blocks", Rows: rows, Table: func(out io.Writer) error { return printBlocks(out, rows) }}
	return writeMeasured(cmd, &r, len(rows), f.output, f.out, err)
}

// steps returns the number of steps of measure.
func (f *blocksFlags) steps() int {
	return len(f.durability) * len(f.config.Sizes) * len(f.config.Copies) * f.config.Rounds
}

// measure calls step with the name of each step. After an error it returns the complete rows.
func (f *blocksFlags) measure(ctx context.Context, work string, step func(string)) (rows []bench.BlocksRow, err error) {
	for _, durability := range f.durability {
		cfg := f.config
		cfg.Dir, cfg.GRPC, cfg.Sync = work, f.transport == "grpc", durability == "sync"
		cfg.Progress = func(name string) { step(durability + ": " + name) }
		more, err := bench.Blocks(ctx, cfg)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func printBlocks(out io.Writer, rows []bench.BlocksRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\t\t\t\t\tblocks\t\t\t\t\tplain files\t\t\t\t\t\tthesis\t")
	fmt.Fprintln(w, "durability\tsize\tcopies\toperation\tclients\tops/s\tp50 us\tp99 us\tCPU us\tbytes written\tops/s\tp50 us\tp99 us\tCPU us\tbytes written\tratio\tops/s\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%s\t%s\t%.2f\t%s\t\n", r.Durability, r.Size, r.Copies, r.Operation, r.Clients,
			costCells(&r.Blocks), costCells(&r.Plain), r.Ratio, thesisCell(r.Thesis))
	}
	return w.Flush()
}

func costCells(c *bench.Cost) string {
	return fmt.Sprintf("%.0f\t%.0f\t%.0f\t%.1f\t%.0f", c.PerSecond, c.P50, c.P99, c.CPU, c.Written)
}

// thesisCell returns the text of a rate from the thesis; empty: the thesis has none.
func thesisCell(rate float64) string {
	if rate == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", rate)
}
