package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// Describe names a command of several partitions and its objects by their paths, as far as the states of the
// partitions have them.
func Describe(stores []Keys, c *Command) string {
	at := func(dir posix.Ino, name string) string { return pathOf(stores, dir) + "/" + name }
	switch c.Op {
	case OpMknod:
		return "make " + at(c.Ino, c.Name)
	case OpLink:
		return fmt.Sprintf("link inode %d as %s", c.Ino, at(c.NewParent, c.NewName))
	case OpUnlink:
		return "remove " + at(c.Ino, c.Name)
	case OpRmdir:
		return "remove directory " + at(c.Ino, c.Name)
	case OpRename:
		return fmt.Sprintf("rename %s to %s", at(c.Ino, c.Name), at(c.NewParent, c.NewName))
	case OpMove:
		return fmt.Sprintf("move inode %d to partition %d", c.Child, c.Target)
	case OpPlace:
		return "place " + pathOf(stores, c.Ino)
	}
	return fmt.Sprintf("operation %d", c.Op)
}

// pathOf returns the path of a directory; empty: the root.
func pathOf(stores []Keys, dir posix.Ino) (path string) {
	for range maxDepth {
		if dir == posix.Root {
			return path
		}
		name, parent := nameOf(stores, dir)
		if name == "" {
			break
		}
		path, dir = "/"+name+path, parent
	}
	return fmt.Sprintf("(directory %d)%s", dir, path)
}

// nameOf finds the name of a directory, and the directory that has it; empty: there is none.
func nameOf(stores []Keys, ino posix.Ino) (name string, parent posix.Ino) {
	for _, keys := range stores {
		b := keys.Get(inodeKey(ino))
		if b == nil {
			continue
		}
		n, err := decodeInode(ino, b)
		if err != nil || !n.Mode.IsDir() {
			continue
		}
		for _, in := range stores {
			for key, value := range in.Scan(numberKey(prefixDirent, uint64(n.parent)), after(prefixDirent, n.parent)) {
				if e, err := decodeDirent(string(key[9:]), value); err == nil && e.ino == ino {
					return e.name, n.parent
				}
			}
		}
	}
	return "", 0
}

// Paths returns the paths of some files, sorted; a file without a name has its number.
func Paths(stores []Keys, files map[posix.Ino]bool) (paths []string) {
	named := map[posix.Ino]bool{}
	for _, keys := range stores {
		for key, value := range keys.Scan([]byte{prefixDirent}, []byte{prefixDirent + 1}) {
			if e, err := decodeDirent(string(key[9:]), value); err == nil && files[e.ino] {
				paths, named[e.ino] = append(paths, pathOf(stores, inoOf(key))+"/"+e.name), true
			}
		}
	}
	for ino := range files {
		if !named[ino] {
			paths = append(paths, fmt.Sprintf("(inode %d)", ino))
		}
	}
	slices.Sort(paths)
	return paths
}
