package mount

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// A mount may show a directory of the tree instead of all of it. The kernel knows its root as the node that is the root of the tree
// everywhere else: in what it asks, that node is replaced. Answers never name it, as nothing below a directory is that directory.

// errNoDirectory says what is wrong with Config.Subdir.
var errNoDirectory = errors.New("the tree has no such directory")

// find gives the directory at a path below the root of the tree.
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

// show has the request be about root where it is about the root of the mount.
func (r *request) show(root posix.Ino) {
	if root == posix.Root || r.op() == opLookup && string(r.raw[inHeaderSize:]) == probe+"\x00" { // go-fuse looks for that in the root
		return
	}
	r.replace(16, root)
	if r.op() == opRename || r.op() == opRename2 {
		r.replace(inHeaderSize, root) // the directory of the new name
	}
}

func (r *request) replace(at int, root posix.Ino) {
	if posix.Ino(uint64At(r.raw, at)) == posix.Root {
		binary.NativeEndian.PutUint64(r.raw[at:], uint64(root))
	}
}
