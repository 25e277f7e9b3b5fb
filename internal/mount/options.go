package mount

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/mount/serve"
)

// DefaultFsName is the source of a mount in the output of df and findmnt.
const DefaultFsName = "globalfs"

// Options of the kernel for the mount.
type Options struct {
	Flags mountpoint.Flags
	// Access is the set of users who may use the mount. If the mounting user is not root, AllUsers needs
	// user_allow_other in /etc/fuse.conf.
	Access Access
	FsName string // the source that df and findmnt show; empty: DefaultFsName
}

// Access is the set of users with access to a mount.
type Access string

// Values of Access.
const (
	AccessDefault Access = ""     // all users if root mounts, otherwise only the mounting user
	AllUsers      Access = "all"  // permissions decide
	OnlyOwner     Access = "user" // the mounting user, not even root
)

// Validate returns an error with the wrong field and the remedy.
func (o *Options) Validate() error {
	switch {
	case !slices.Contains([]Access{AccessDefault, AllUsers, OnlyOwner}, o.Access):
		return fmt.Errorf("mount: access %q: use %q, %q or nothing", o.Access, AllUsers, OnlyOwner)
	case len(o.FsName) > 255 || strings.ContainsAny(o.FsName, "\x00\n"):
		return fmt.Errorf("mount: fsname %q: use at most 255 bytes in one line", o.FsName)
	}
	return nil
}

// kernel returns the options that the kernel understands.
func (o *Options) kernel() *mountpoint.Options {
	// The kernel checks permissions, with the caller's groups, which FUSE does not pass to the mount.
	options := []string{"default_permissions", fmt.Sprintf("max_read=%d", serve.MaxRequest)}
	if o.Access == AllUsers || o.Access == AccessDefault && os.Geteuid() == 0 {
		options = append(options, "allow_other")
	}
	return &mountpoint.Options{Source: o.FsName, Flags: o.Flags, Kernel: options}
}

// wishes returns the requested features of the kernel's protocol, with the reasons. A mount is handed over
// only between versions with the same features.
func wishes(logger *slog.Logger) *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:          "globalfs",
		MaxWrite:      serve.MaxRequest,
		MaxBackground: maxBackground,
		EnableLocks:   true,
		// Nothing is spliced: contents come from the network.
		DisableSplice: true,
		// Not CAP_ATOMIC_O_TRUNC: it would truncate a running program before the check for ETXTBSY.
		ExtraCapabilities: fuse.CAP_READDIRPLUS_AUTO | // attributes with names only where they were asked for before
			fuse.CAP_HANDLE_KILLPRIV_V2 | // no request for security.capability before each write
			fuse.CAP_HAS_RESEND, // after a crash the next process gets the requests that the dead one had read
		// There is no passthrough to local files, and it would count in the limit of stacked overlays.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		Logger:               slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		PanicHandler: func(evidence any) fuse.Status {
			logger.Error("a request caused a panic in the mount: it gets EIO; please report this", "panic", evidence, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}
