package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
)

// madeCertificate is the result of a command that makes certificates, for one of them.
type madeCertificate struct {
	File  string     `json:"file"`
	Key   string     `json:"key"`
	State string     `json:"state"` // made, kept, or how it was changed
	For   string     `json:"for"`
	Until *time.Time `json:"until,omitempty"`
}

// certsReport prints the results of a command that makes certificates: as text, a line at once for each; as
// JSON, all together at the end.
type certsReport struct {
	output string
	made   []madeCertificate
}

// add reports a certificate. A zero until means that the end of its validity is not known.
func (r *certsReport) add(cmd *cobra.Command, files identity.Files, state, whose string, until time.Time) error {
	m := madeCertificate{File: files.Certificate, Key: files.Key, State: state, For: whose}
	line := fmt.Sprintf("%s: %s, %s", files.Certificate, state, whose)
	if !until.IsZero() {
		m.Until = &until
		line += ", until " + day(until)
	}
	r.made = append(r.made, m)
	if r.output == "json" {
		return nil
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}

// reporting runs a command, and prints in JSON the certificates that it has made, also those before an error.
func (r *certsReport) reporting(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if r.output == "json" && (err == nil || len(r.made) > 0) {
			if failed := command.PrintJSON(cmd.OutOrStdout(), r.made); failed != nil {
				return failed
			}
		}
		return err
	}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
