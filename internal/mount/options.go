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

// DefaultFsName is what df and findmnt show as the source of a mount.
const DefaultFsName = "globalfs"

// Options say how the kernel treats the mount.
type Options struct {
	ReadOnly bool // nothing can be changed through it: EROFS
	// Access says whose programs may use the mount. Others than root need user_allow_other in /etc/fuse.conf
	// for AllUsers.
	Access Access
	FsName string // the source that df and findmnt show; empty: DefaultFsName
}

// Access says who may use a mount.
type Access string

// Who may.
const (
	AccessDefault Access = ""     // all users if root mounts, otherwise only who mounts
	AllUsers      Access = "all"  // permissions decide
	OnlyOwner     Access = "user" // who mounts, not even root
)

// Validate names the field that is wrong and the remedy.
func (o *Options) Validate() error {
	switch {
	case !slices.Contains([]Access{AccessDefault, AllUsers, OnlyOwner}, o.Access):
		return fmt.Errorf("mount: access %q: use %q, %q or nothing", o.Access, AllUsers, OnlyOwner)
	case len(o.FsName) > 255 || strings.ContainsAny(o.FsName, "\x00\n"):
		return fmt.Errorf("mount: fsname %q: use at most 255 bytes in one line", o.FsName)
	}
	return nil
}

// kernel gives the options that the kernel understands.
func (o *Options) kernel() *mountpoint.Options {
	// The kernel checks permissions, with the caller's groups, which FUSE does not tell us.
	options := []string{"default_permissions", fmt.Sprintf("max_read=%d", serve.MaxRequest)}
	if o.Access == AllUsers || o.Access == AccessDefault && os.Geteuid() == 0 {
		options = append(options, "allow_other")
	}
	return &mountpoint.Options{Source: o.FsName, ReadOnly: o.ReadOnly, Kernel: options}
}

// wishes says what is asked of the kernel's protocol, and why. What changes here changes the terms: a mount
// is handed over only between versions that have the same.
func wishes(logger *slog.Logger) *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:          "globalfs",
		MaxWrite:      serve.MaxRequest,
		MaxBackground: maxBackground,
		EnableLocks:   true,
		// Nothing is spliced: contents come from the network.
		DisableSplice: true,
		// Not CAP_ATOMIC_O_TRUNC: it would cut a running program before ETXTBSY is checked.
		ExtraCapabilities: fuse.CAP_READDIRPLUS_AUTO | // attributes with names only where they were asked for before
			fuse.CAP_HANDLE_KILLPRIV_V2 | // no request for security.capability before each write
			fuse.CAP_HAS_RESEND, // who serves after a crash is sent again what the dead one had read
		// Passing through to local files is not what we do, and counts in how deep overlays may stack.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		Logger:               slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		PanicHandler: func(evidence any) fuse.Status {
			logger.Error("a request broke the mount's code: it gets EIO; please report this", "panic", evidence, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}
