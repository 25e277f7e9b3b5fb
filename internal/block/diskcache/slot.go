package diskcache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// slots is the maximum number of caches of one directory. Each process that is mounting takes one.
const slots = 4

// A cache of OpenSlot takes at most a tenth (1/freeShare) of the space that would be free without it. If that
// is less than leastSlot bytes, there is no cache.
const (
	freeShare = 10
	leastSlot = 256 << 20
)

// ErrInUse means that another process uses the directory of the cache.
var ErrInUse = errors.New("the directory is in use by another globalfs")

// OpenSlot opens a cache in one of a few slots below config.Dir, which several processes share. It prefers a
// slot with blocks of the same cluster, then an unused one. It takes a slot of another cluster if there is no
// other, and removes the blocks there. All directories are only for this user. The cache is smaller than
// config.MaxBytes on a disk with little free space. On a file system in memory there is no cache.
func OpenSlot(config Config) (*Cache, error) {
	if err := os.MkdirAll(filepath.Dir(config.Dir), 0o755); err != nil { // other programs use it, too
		return nil, fmt.Errorf("block cache: %w", err)
	}
	if err := os.Mkdir(config.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("block cache: %w", err)
	}
	root := config.Dir
	for _, slot := range ranked(root, config.Cluster) {
		config := config
		config.Dir = slot
		if err := makePrivate(slot); err != nil {
			return nil, err
		}
		room, err := roomIn(slot)
		if err != nil {
			return nil, err
		}
		config.MaxBytes = min(config.MaxBytes, room)
		if c, err := Open(config); !errors.Is(err, ErrInUse) {
			return c, err
		}
	}
	return nil, fmt.Errorf("block cache %s: all %d parts: %w", root, slots, ErrInUse)
}

// ranked returns the slots of a directory, the best for a cluster first.
func ranked(root, cluster string) []string {
	all := make([]string, slots)
	rank := map[string]int{}
	for i := range all {
		all[i] = filepath.Join(root, strconv.Itoa(i))
		was, err := os.ReadFile(filepath.Join(all[i], blocksDir, clusterName))
		switch {
		case err != nil:
			rank[all[i]] = 1
		case string(was) != cluster:
			rank[all[i]] = 2
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
	return all
}

// makePrivate makes a directory for this user. It refuses an existing one that others may use.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("block cache: %s is no directory that only this user can read: remove it", dir)
	}
	return nil
}

// roomIn returns the number of bytes that the cache of a slot may have.
func roomIn(slot string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(slot, &disk); err != nil {
		return 0, fmt.Errorf("block cache %s: %w", slot, err)
	}
	if disk.Type == unix.TMPFS_MAGIC || disk.Type == unix.RAMFS_MAGIC {
		return 0, fmt.Errorf("block cache: %s is in memory, not on a disk", slot)
	}
	if disk.Type == unix.FUSE_SUPER_MAGIC || disk.Type == unix.NFS_SUPER_MAGIC || disk.Type == unix.SMB2_SUPER_MAGIC {
		return 0, fmt.Errorf("block cache: %s is on a network file system, not on a disk of this machine", slot)
	}
	own := int64(0)
	files, _ := os.ReadDir(filepath.Join(slot, blocksDir)) // none yet
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			own += info.Size()
		}
	}
	room := (own + int64(disk.Bavail)*disk.Bsize) / freeShare
	if room < leastSlot {
		return 0, fmt.Errorf("block cache: the disk of %s has too little free space, %d bytes", slot, int64(disk.Bavail)*disk.Bsize)
	}
	return room, nil
}
