package lossy

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is an object for go-fuse. Files are open without a handle, and without pages in the kernel.
type node struct {
	fs.Inode
	disk   *Disk
	object *object
}

var (
	_ fs.NodeLookuper  = (*node)(nil)
	_ fs.NodeCreater   = (*node)(nil)
	_ fs.NodeMkdirer   = (*node)(nil)
	_ fs.NodeUnlinker  = (*node)(nil)
	_ fs.NodeRmdirer   = (*node)(nil)
	_ fs.NodeRenamer   = (*node)(nil)
	_ fs.NodeReaddirer = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeStatfser  = (*node)(nil)
	_ fs.NodeAllocater = (*node)(nil)
)

// lock holds the disk until the returned function is called.
func (n *node) lock() func() {
	n.disk.mu.Lock()
	return n.disk.mu.Unlock
}

func (o *object) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink, out.Blksize = o.number, syscall.S_IFREG|o.mode, 1, 4096
	if o.isDir {
		out.Mode = syscall.S_IFDIR | o.mode
	}
	out.Size = uint64(len(o.data))
	out.Blocks = (out.Size + 511) / 512
	out.SetTimes(&o.mtime, &o.mtime, &o.mtime)
}

func (n *node) child(ctx context.Context, o *object, out *fuse.EntryOut) *fs.Inode {
	o.attr(&out.Attr)
	return n.NewInode(ctx, &node{disk: n.disk, object: o}, fs.StableAttr{Mode: out.Mode & syscall.S_IFMT, Ino: o.number})
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.lock()()
	o := n.object.live[name]
	if o == nil {
		return nil, syscall.ENOENT
	}
	return n.child(ctx, o, out), 0
}

// put gives an object a name.
func (o *object) put(name string, child *object) {
	if old := o.live[name]; old != nil {
		old.parent = nil
	}
	o.live[name], child.parent, child.name = child, o, name
}

func (n *node) Create(ctx context.Context, name string, _ uint32, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	defer n.lock()()
	if n.object.live[name] != nil {
		return nil, nil, 0, syscall.EEXIST
	}
	o := n.disk.newObject(false, mode&0o7777)
	n.object.put(name, o)
	return n.child(ctx, o, out), nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.lock()()
	if n.object.live[name] != nil {
		return nil, syscall.EEXIST
	}
	o := n.disk.newObject(true, mode&0o7777)
	n.object.put(name, o)
	return n.child(ctx, o, out), 0
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	defer n.lock()()
	o := n.object.live[name]
	switch {
	case o == nil:
		return syscall.ENOENT
	case len(o.live) > 0:
		return syscall.ENOTEMPTY
	}
	o.parent = nil
	delete(n.object.live, name)
	return 0
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno { return n.Unlink(ctx, name) }

func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	defer n.lock()()
	target, ok := to.(*node)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	o := n.object.live[name]
	if o == nil {
		return syscall.ENOENT
	}
	if old := target.object.live[newName]; old == o {
		return 0
	} else if old != nil && len(old.live) > 0 {
		return syscall.ENOTEMPTY
	}
	delete(n.object.live, name)
	target.object.put(newName, o)
	return 0
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	defer n.lock()()
	var list []fuse.DirEntry
	for name, o := range n.object.live {
		mode := uint32(syscall.S_IFREG)
		if o.isDir {
			mode = syscall.S_IFDIR
		}
		list = append(list, fuse.DirEntry{Name: name, Ino: o.number, Mode: mode})
	}
	return fs.NewListDirStream(list), 0
}

func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, into []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	defer n.lock()()
	data := n.object.data
	if offset >= int64(len(data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(into[:copy(into, data[offset:])]), 0
}

// change records that a file is changed from an offset on, and sets its length.
func (o *object) change(from, size int) {
	if !o.dirty || from < o.from {
		o.from = from
	}
	if size > len(o.data) {
		o.data = append(o.data, make([]byte, size-len(o.data))...)
	}
	o.data, o.dirty, o.mtime = o.data[:size], true, time.Now()
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	defer n.lock()()
	o := n.object
	o.change(min(int(offset), len(o.data)), max(len(o.data), int(offset)+len(data)))
	return uint32(copy(o.data[offset:], data)), 0
}

func (n *node) Allocate(_ context.Context, _ fs.FileHandle, offset, size uint64, mode uint32) syscall.Errno {
	defer n.lock()()
	switch mode {
	case 0:
		n.object.change(len(n.object.data), max(len(n.object.data), int(offset+size)))
		return 0
	case 1: // FALLOC_FL_KEEP_SIZE
		return 0
	}
	return syscall.EOPNOTSUPP
}

// Fsync is also that of directories.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	defer n.lock()()
	n.disk.sync(n.object)
	return 0
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	defer n.lock()()
	n.object.attr(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	defer n.lock()()
	o := n.object
	if size, ok := in.GetSize(); ok {
		// Data that are cut off must not come back with a later write.
		o.data = slices.Clip(o.data[:min(int(size), len(o.data))])
		o.change(len(o.data), int(size))
	}
	if mode, ok := in.GetMode(); ok {
		o.mode = mode & 0o7777
	}
	if at, ok := in.GetMTime(); ok {
		o.mtime = at
	}
	o.attr(&out.Attr)
	return 0
}

// size of the disk in blocks of 4 KiB, all of which are always free.
const size = 16 << 20

func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.Blocks, out.Bfree, out.Bavail, out.NameLen = 4096, 4096, size, size, size, 255
	return 0
}
