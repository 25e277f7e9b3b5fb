package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// PrintJSON prints a value for programs.
func PrintJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// Output is a flag: the format of a measurement's result, table or json.
type Output string

// Register adds the flag to a command.
func (o *Output) Register(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "table", "table or json")
	Choice(cmd, cmd.Flags(), "output", "table", "json")
}

// JSON reports whether the result is for programs.
func (o *Output) JSON() bool { return *o == "json" }

// Result is the result of a measurement.
type Result struct {
	Name  string // of the files
	Rows  any    // for programs, as JSON
	Table func(io.Writer) error
}

// Write prints the result in the chosen format and, if a directory is named, puts both formats into files
// there.
func (r *Result) Write(out io.Writer, format Output, dir string) error {
	var table, text bytes.Buffer
	if err := errors.Join(r.Table(&table), PrintJSON(&text, r.Rows)); err != nil {
		return err
	}
	chosen := table.Bytes()
	if format.JSON() {
		chosen = text.Bytes()
	}
	_, err := out.Write(chosen) // if one output fails, the other still has the result
	if dir == "" {
		return err
	}
	return errors.Join(err,
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, r.Name+".txt"), table.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, r.Name+".json"), text.Bytes(), 0o644),
	)
}
