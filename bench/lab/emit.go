package lab

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// report is the report of a measurement.
type report interface {
	WriteTable(w io.Writer) error
	WriteJSON(w io.Writer) error
	WriteFiles(dir string) error
}

// emit writes a report to the output of cmd, and as files into dir, unless that is empty.
func emit(cmd *cobra.Command, r report, asJSON bool, dir string) error {
	write := r.WriteTable
	if asJSON {
		write = r.WriteJSON
	}
	err := write(cmd.OutOrStdout())
	if dir != "" {
		err = errors.Join(err, r.WriteFiles(dir))
	}
	return err
}
