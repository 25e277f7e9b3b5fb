package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/spf13/cobra"
)

func newWhere() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "where PATH...",
		Short: "Show the region of files and directories, and the reason",
		Long: `where shows for each PATH on a mounted tree: the region and the partition, the servers of its replicas with the leader, the reason of the
placement, the rule for new entries, and the progress of a move.`,
		Example: `  globalfs where ~/globalfs/projects
  globalfs where --output json ~/globalfs/projects/* | jq -r '.[] | .region + " " + .path'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageError(errors.New("where: give the PATH of a file or directory on a mounted tree"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := whereAll(cmd.Context(), args)
			if output == "json" {
				return errors.Join(err, command.PrintJSON(cmd.OutOrStdout(), found))
			}
			return errors.Join(err, printWhere(cmd.OutOrStdout(), found))
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// located is a path with its place.
type located struct {
	Path string `json:"path"`
	mount.Where
}

// whereAll returns the places of all paths. It continues after a path that fails.
func whereAll(ctx context.Context, paths []string) ([]located, error) {
	found := []located{} // [] in JSON
	var errs []error
	for _, path := range paths {
		l := located{Path: path}
		if err := getJSON(ctx, path, mount.XattrWhere, &l.Where); err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, l)
	}
	return found, errors.Join(errs...)
}

func printWhere(out io.Writer, found []located) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range found {
		fmt.Fprintln(w, l.Path)
		fmt.Fprintf(w, "  region\t%s (partition %d)\n", l.Region, l.Partition)
		fmt.Fprintf(w, "  why\t%s\n", l.Why)
		fmt.Fprintf(w, "  replicas\t%s\n", servers(&l.Where))
		fmt.Fprintf(w, "  inode\t%d\n", l.Inode)
		if l.Rule != nil {
			fmt.Fprintf(w, "  rule\t%s\n", describeRule(l.Rule))
		}
		if l.Task != nil {
			fmt.Fprintf(w, "  moving\t%s\n", moveText(l.Task))
		}
	}
	return w.Flush()
}

// servers returns the names of the replicas' servers, with the leader marked.
func servers(w *mount.Where) string {
	names := make([]string, len(w.Replicas))
	for i, r := range w.Replicas {
		names[i] = r.Server
		if r.Server == w.Leader {
			names[i] += " (leader)"
		}
	}
	return strings.Join(names, ", ")
}

func describeRule(r *mount.Rule) string {
	if len(r.Spread) > 0 {
		return "new entries are spread over " + join(r.Spread)
	}
	return fmt.Sprintf("new entries go to %s", r.Region)
}

// moveText describes the progress of a move.
func moveText(t *mount.Task) string {
	text := fmt.Sprintf("to %s: %d inodes moved so far", t.Target, t.Moved)
	if t.Paused {
		text += "; paused"
	}
	return text
}

func join(regions []topology.Region) string {
	names := make([]string, len(regions))
	for i, r := range regions {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
