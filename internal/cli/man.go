package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/globalfs/globalfs/internal/command"
)

func newMan() *cobra.Command {
	var markdown, output string
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `man writes a manual page for each command, such as globalfs-mount.1, into DIR, and creates DIR if necessary. With --markdown
it also writes one page about all commands for the web.`,
		Example: `  globalfs man /usr/local/share/man/man1
  globalfs man --markdown docs/commands.md /tmp/man
  globalfs man /tmp/man && man -l /tmp/man/globalfs-mount.1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(fmt.Errorf("%s: give one DIR", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			born := time.Unix(0, 0).UTC() // so that pages of the same version are identical
			cmd.Root().DisableAutoGenTag = true
			if markdown != "" {
				if err := os.WriteFile(markdown, []byte(commandsPage(cmd.Root())), 0o644); err != nil {
					return err
				}
			}
			indentCode(cmd.Root())
			err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "GLOBALFS", Section: "1", Source: "GlobalFS " + command.Version(), Manual: "GlobalFS", Date: &born}, args[0])
			if err != nil || output != "json" {
				return err
			}
			return command.PrintJSON(cmd.OutOrStdout(), map[string]string{"directory": args[0]})
		},
	}
	cmd.Flags().StringVar(&markdown, "markdown", "", "also write one Markdown page about all commands to this file")
	quietOutputFlag(cmd, &output)
	return cmd
}

// indentCode indents the lists and examples of help texts by four columns: the converter to roff joins other
// lines.
func indentCode(cmd *cobra.Command) {
	cmd.Long = strings.ReplaceAll(cmd.Long, "\n  ", "\n    ")
	for _, c := range cmd.Commands() {
		indentCode(c)
	}
}
