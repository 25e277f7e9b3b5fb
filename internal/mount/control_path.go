package mount

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of the search for the path of a directory. Lists show only a few directories.
const (
	maxDepth     = 256
	maxNamePages = 16
)

func compareInos(a, b posix.Ino) int { return cmp.Compare(a, b) }

// pathFor calls path on behalf of a user. It returns an empty path for a directory of another user, because
// this user may lack permission for the names above it.
func (f *fileSystem) pathFor(ctx context.Context, h *fuse.InHeader, dir posix.Ino) string {
	if h.Uid != 0 {
		a, err := f.client.GetAttr(ctx, dir)
		if err != nil || a.UID != h.Uid {
			return ""
		}
	}
	return f.path(ctx, dir)
}

// path returns the path of a directory below the root of the tree, empty if it is not found.
func (f *fileSystem) path(ctx context.Context, dir posix.Ino) string {
	var names []string
	for range maxDepth {
		if dir == posix.Root {
			slices.Reverse(names)
			return "/" + strings.Join(names, "/")
		}
		parent, err := f.client.Lookup(ctx, dir, "..")
		if err != nil {
			return ""
		}
		name := f.nameOf(ctx, parent.Ino, dir)
		if name == "" {
			return ""
		}
		names, dir = append(names, name), parent.Ino
	}
	return ""
}

// nameOf returns the name of an inode in a directory, empty if it is not found.
func (f *fileSystem) nameOf(ctx context.Context, dir, child posix.Ino) string {
	cookie := uint64(0)
	for range maxNamePages {
		entries, _, err := f.client.ReadDir(ctx, dir, cookie, pageEntries)
		if err != nil || len(entries) == 0 {
			return ""
		}
		if at := slices.IndexFunc(entries, func(e meta.Entry) bool { return e.Attr.Ino == child }); at >= 0 {
			return entries[at].Name
		}
		cookie = entries[len(entries)-1].Cookie
	}
	return ""
}
