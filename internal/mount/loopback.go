package mount

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// maxSplice is the largest request with an answer that fits a pipe, in bytes.
const maxSplice = 512 << 10

// Loopback configures a mount of go-fuse's loopback file system, which shows a directory of the disk at
// another place. It is the baseline of measurements: it has the costs of FUSE and nothing else.
type Loopback struct {
	Backing string // an existing directory
	Dir     string // where to mount: an existing directory
	// Tuned requests the largest requests that go-fuse can splice, and the read-ahead of our own mounts.
	// Otherwise the options are those of go-fuse's example.
	Tuned bool
	// Passthrough makes the kernel itself read and write the files of Backing: the bytes do not reach this
	// process.
	Passthrough bool
}

// ErrNoPassthrough means that this process cannot use passthrough.
var ErrNoPassthrough = errors.New("passing through to files needs root and Linux 6.9")

// Mount mounts the loopback file system, and returns the function that unmounts it.
func (l *Loopback) Mount() (unmount func() error, err error) {
	if err := mountpoint.CheckDevice(l.Dir); err != nil {
		return nil, err
	}
	root, err := fs.NewLoopbackRoot(l.Backing)
	if err != nil {
		return nil, fmt.Errorf("loopback of %s: %w", l.Backing, err)
	}
	second := time.Second
	options := &fs.Options{
		AttrTimeout: &second, EntryTimeout: &second, NullPermissions: true,
		MountOptions: fuse.MountOptions{FsName: l.Backing, Name: "loopback", DirectMount: os.Geteuid() == 0},
	}
	if l.Tuned {
		options.MaxWrite, options.MaxBackground = maxSplice, maxBackground
	}
	if !l.Passthrough {
		options.DisabledCapabilities = fuse.CAP_PASSTHROUGH
	}
	server, err := fs.Mount(l.Dir, root, options)
	if err != nil {
		return nil, fmt.Errorf("loopback at %s: %w%s", l.Dir, err, mountpoint.Advice())
	}
	unmount = func() error {
		if err := server.Unmount(); err != nil {
			return fmt.Errorf("unmount %s: %w; try: umount -l %s", l.Dir, err, l.Dir)
		}
		server.Wait()
		return nil
	}
	if l.Passthrough && (os.Geteuid() != 0 || server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0) {
		return nil, errors.Join(ErrNoPassthrough, unmount())
	}
	if l.Tuned {
		_ = mountpoint.ReadFarAhead(l.Dir) // optional for our own mounts, too
	}
	return unmount, nil
}
