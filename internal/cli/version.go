package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
)

// versionInfo is the output of `version`.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // empty: the program was built outside of a repository
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Wire     int    `json:"wire_format"`     // of commands between clients and servers, and in logs
	Metadata int    `json:"metadata_format"` // of the metadata on disk
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program and of its formats",
		Long: `version prints the version, the commit and the Go version of this program. It also prints the version of the commands that servers and
clients exchange and keep in their logs, and the version of the metadata on disk. A server refuses metadata of another version.`,
		Example: `  globalfs version
  globalfs version -o json | jq -r .commit`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := thisVersion()
			if output == "json" {
				return command.PrintJSON(cmd.OutOrStdout(), v)
			}
			commit := orDash(v.Commit)
			if v.Modified {
				commit += " (with local changes)"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "globalfs %s\ncommit %s\n%s, %s\nwire format %d, metadata format %d\n", v.Version, commit, v.Go, v.Platform, v.Wire, v.Metadata)
			return err
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func thisVersion() versionInfo {
	v := versionInfo{
		Version: command.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Wire: order.FormatVersion, Metadata: meta.FormatVersion,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}
