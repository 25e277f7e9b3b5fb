package mount

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// errNoDirectory means that Config.Subdir does not exist.
var errNoDirectory = errors.New("the tree has no such directory")

// findRoot returns the directory at a path below the root of the tree, as the root of a mount. The client
// holds it, so that every renewal of the session keeps its ticket (package route): the kernel cannot look the
// root up again.
func findRoot(c *client.Client, path string) (posix.Ino, error) {
	root, err := find(c, path)
	if err == nil && root != posix.Root {
		err = c.Hold(root)
	}
	return root, err
}

// find returns the directory at a path below the root of the tree.
func find(c *client.Client, path string) (posix.Ino, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout())
	defer cancel()
	dir := posix.Root
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		a, err := c.Lookup(ctx, dir, name)
		switch {
		case errors.Is(err, posix.ENOENT), errors.Is(err, posix.ENOTDIR), err == nil && !a.Mode.IsDir():
			return 0, fmt.Errorf("/%s: %w", strings.Trim(path, "/"), errNoDirectory)
		case err != nil:
			return 0, fmt.Errorf("%s: %w: check that the servers run and can be reached", path, err)
		}
		dir = a.Ino
	}
	return dir, nil
}
