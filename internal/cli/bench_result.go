package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

// steps returns the function that a benchmark calls with the name of each step, and counts the steps. A total
// of 0 means that it is not known.
func steps(meter *progress.Meter, total int) func(string) {
	done := uint64(0)
	return func(step string) {
		meter.Count(uint64(total), "steps", "%s", step)
		meter.Add(done)
		done++
	}
}

// writeMeasured prints the result of a benchmark that has ended with err. If Ctrl-C ended it, the result has
// the rows that were complete.
func writeMeasured(cmd *cobra.Command, r *command.Result, rows int, format command.Output, dir string, err error) error {
	if err != nil && (cmd.Context().Err() == nil || rows == 0) {
		return command.Interrupted(cmd.Context(), err)
	}
	if err != nil {
		err = fmt.Errorf("interrupted: the %d rows that were complete are printed", rows)
	}
	return errors.Join(err, r.Write(cmd.OutOrStdout(), format, dir))
}
