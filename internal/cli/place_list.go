package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
)

// placedTree is the output of `place --list`.
type placedTree struct {
	Placements []mount.Placement `json:"placements"`
	Tasks      []mount.Task      `json:"tasks"`
}

func listPlacements(ctx context.Context, path, format string, out io.Writer) (err error) {
	var tree placedTree
	if tree.Placements, err = pages[mount.Placement](ctx, path, mount.XattrPlacements); err != nil {
		return err
	}
	if tree.Tasks, err = pages[mount.Task](ctx, path, mount.XattrTasks); err != nil {
		return err
	}
	if format == "json" {
		return command.PrintJSON(out, tree)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DIRECTORY\tRULE")
	for _, p := range tree.Placements {
		fmt.Fprintf(w, "%s\t%s\n", directory(p.Path, p.Inode), describeRule(&p.Rule))
	}
	if len(tree.Tasks) > 0 {
		fmt.Fprintln(w, "\nMOVING\tPROGRESS")
	}
	for _, t := range tree.Tasks {
		fmt.Fprintf(w, "%s\t%s\n", directory(t.Path, t.Inode), moveText(&t))
	}
	return w.Flush()
}

// directory returns the text for a directory: its path below the root of the tree. If the path is not known,
// it returns the inode number, for `find -inum`.
func directory(path string, inode uint64) string {
	if path == "" {
		return fmt.Sprintf("inode %d", inode)
	}
	return path
}

// pages reads a list page by page, because it may be longer than an attribute.
func pages[T any](ctx context.Context, path, name string) ([]T, error) {
	all := []T{} // [] in JSON
	for {
		var page []T
		if err := getJSON(ctx, path, mount.PageOf(name, len(all)), &page); err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return all, nil
		}
		all = append(all, page...)
	}
}
