// Package lab implements the command line of globalfs-lab: the measurements that are not part of the product.
// They compare protocols in virtual networks, run them in processes without a file system, and run whole
// clusters in a wide-area network inside this machine. `globalfs bench` has the measurements for users on
// their own clusters.
package lab

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
)

// Main runs the program and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	return command.Main(newRoot(), args, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "globalfs-lab",
		Short: "The laboratory of GlobalFS: its protocols measured by themselves, and beside others",
		Long: `globalfs-lab measures what GlobalFS is made of: its atomic multicast beside other protocols in virtual networks, commands
of several partitions with and without it, TRAM and Heron on one-sided memory, that memory between two processes, batching, pipelining and packing, the same multicast in real
processes, and whole clusters in a wide-area network inside this machine. reproduce makes one report of the papers. Results are tables on standard output, or JSON with --output json; progress goes to standard error.

Exit codes: 0 done, 1 failed, 3 a value is wrong, 128 the command line does not parse. Each flag can be an environment
variable, such as GLOBALFS_LAB_DURATION for --duration.`,
		Example: `  globalfs-lab multicast --quick
  globalfs-lab cross --quick
  globalfs-lab micro --quick
  globalfs-lab tram --quick
  globalfs-lab fabric --providers shm
  globalfs-lab batching --quick
  globalfs-lab packing
  globalfs-lab heron --quick
  globalfs-lab reproduce --quick --out reproduced
  globalfs-lab processes --shape a --outstanding 128
  globalfs-lab mount -- --measures create,stat
  globalfs-lab growth --sizes 1000,10000
  globalfs-lab geo --settings embedded,loopback --clients 1 --duration 500ms`,
	}
	command.Prepare(root)
	root.AddCommand(newMulticast(), newCross(), newMicro(), newTram(), newFabric(), newHeron(), newPacking(), newReproduce(), newBatching(), newProcesses(), newGeo(), newMount(), newGrowth())
	return root
}

// stopwatch returns a function that prints the next measurement after the time since the start.
func stopwatch(cmd *cobra.Command) func(what string) {
	start := time.Now()
	return func(what string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%6.1fs  %s\n", time.Since(start).Seconds(), what)
	}
}
