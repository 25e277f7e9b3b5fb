// Package lossy is a disk that forgets unsynced data. It is a FUSE file system in memory for the data
// directories of processes under test. Written data are there, also for other processes, until Lose: then
// everything is as it was on disk.
//
// On disk is
//   - the content of a file as it was at its last fsync or fdatasync,
//   - the name of a file that was synced, in directories that are on disk for it,
//   - the names in a directory as they were at its last fsync, also those that were removed since.
//
// ext4, XFS and Btrfs keep at least that. All that was not synced is lost together: a kernel may have
// written some of it.
package lossy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/pause"
)

// Disk is a disk that can be mounted, lose power, and be mounted again.
type Disk struct {
	mu     sync.Mutex
	root   *object // GUARDED_BY mu
	last   uint64  // GUARDED_BY mu; number of the last object
	syncs  uint64  // GUARDED_BY mu
	server *fuse.Server
}

// object is a file or a directory.
type object struct {
	number uint64
	isDir  bool
	mode   uint32
	mtime  time.Time

	live, disk entries // of a directory
	parent     *object // nil: the root, or it has no name
	name       string

	data   []byte // of a file
	synced []byte // as it is on disk
	dirty  bool   // data is not synced, from this offset on
	from   int
}

type entries map[string]*object

// New makes an empty disk.
func New() *Disk {
	d := &Disk{}
	d.root = d.newObject(true, 0o755)
	return d
}

func (d *Disk) newObject(isDir bool, mode uint32) *object {
	d.last++
	o := &object{number: d.last, isDir: isDir, mode: mode, mtime: time.Now()}
	if isDir {
		o.live, o.disk = entries{}, entries{}
	}
	return o
}

// Mount makes the disk usable at a directory.
func (d *Disk) Mount(dir string) error {
	zero := time.Duration(0)
	server, err := fs.Mount(dir, &node{disk: d, object: d.root}, &fs.Options{
		EntryTimeout: &zero, AttrTimeout: &zero,
		MountOptions: fuse.MountOptions{FsName: "lossy", Name: "lossy", DirectMount: true, MaxWrite: 128 << 10},
	})
	if err != nil {
		return err
	}
	d.server = server
	return nil
}

// unmountTime is the patience of Unmount with the kernel, which closes the files of a killed process.
const unmountTime = 10 * time.Second

// Unmount ends the use of the disk. Nobody may have a file of it open.
func (d *Disk) Unmount() error {
	if d.server == nil {
		return nil
	}
	err := d.server.Unmount()
	for began := time.Now(); err != nil && time.Since(began) < unmountTime; err = d.server.Unmount() {
		if pause.For(context.Background(), unmountTime/100) != nil {
			break
		}
	}
	if err == nil {
		d.server = nil
	}
	return err
}

// Syncs counts the syncs of files and directories.
func (d *Disk) Syncs() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Lose is a loss of power: the disk must not be mounted. It returns the number of files and names that were
// lost, or are not as they were.
func (d *Disk) Lose() (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.lose()
}

func (o *object) lose() (lost int) {
	if !o.isDir {
		if o.dirty {
			lost = 1
		}
		o.data, o.dirty = slices.Clone(o.synced), false
		return lost
	}
	for name, child := range o.live {
		if o.disk[name] != child {
			lost++
		}
	}
	o.live = maps.Clone(o.disk)
	for name, child := range o.live {
		child.parent, child.name = o, name
		lost += child.lose()
	}
	return lost
}

// sync makes an object and its name survive a loss of power.
func (d *Disk) sync(o *object) {
	d.syncs++
	if o.isDir {
		o.disk = maps.Clone(o.live)
	} else if o.dirty {
		o.synced, o.dirty = append(o.synced[:min(o.from, len(o.synced))], o.data[min(o.from, len(o.synced)):]...), false
	}
	for ; o.parent != nil; o = o.parent {
		for name, other := range o.parent.disk {
			if other == o && name != o.name {
				delete(o.parent.disk, name)
			}
		}
		o.parent.disk[o.name] = o
	}
}
