package cli

import (
	"path/filepath"
	"slices"
	"strings"
)

// exitMount is the exit code of mount(8) for a failed mount.
const exitMount = 32

// asMountHelper translates the arguments of a call by mount(8) or mount.fuse3(8) into those of the mount
// command. For the file system type globalfs, mount(8) calls
//
//	mount.globalfs SOURCE DIR [-sfnvrw] [-o OPTIONS] [-t TYPE]
//
// For the type fuse.globalfs, mount.fuse3(8) calls
//
//	globalfs SOURCE DIR -o OPTIONS
//
// is reports whether the call is one of these.
func asMountHelper(program string, args []string) (rewritten []string, is bool) {
	called := strings.HasPrefix(filepath.Base(program), "mount.")
	if !called && (len(args) < 2 || strings.HasPrefix(args[0], "-") || !strings.Contains(args[0], ":")) {
		return args, false
	}
	rewritten = []string{"mount"}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-t" || a == "-N":
			i++
		case a == "-r":
			rewritten = append(rewritten, "-o", "ro")
		case a == "-s", a == "-n", a == "-v", a == "-w":
		case a == "-o" && i+1 < len(args):
			i++
			rewritten = append(rewritten, a, helperOptions(strings.Split(args[i], ","), called))
		default:
			rewritten = append(rewritten, a)
		}
	}
	return rewritten, true
}

// helperOptions translates the options of mount(8) or mount.fuse3(8) into those of the mount command.
//
// Both programs consider suid and dev the defaults of a new mount: mount(8) does not pass them, and
// mount.fuse3(8) always passes them. So suid and dev have no effect here. The exception is a remount with all
// options of /proc/mounts, which is recognized by the option user_id. In a remount mount(8) passes the flags
// that are set, and mount.fuse3(8) passes suid and dev where nosuid and nodev are not set.
func helperOptions(options []string, byMount bool) string {
	remount := slices.Contains(options, "remount")
	complete := slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "user_id=") })
	if !byMount && !(remount && complete) {
		options = slices.DeleteFunc(options, func(o string) bool { return o == "dev" || o == "suid" })
	}
	var before []string
	if remount {
		before = []string{"rw", "exec", "symfollow"}
		switch {
		case complete && byMount:
			before = append(before, "suid", "dev")
		case complete:
			before = append(before, "nosuid", "nodev")
		}
	}
	return strings.Join(slices.Concat(before, options), ",")
}
