package cli

import (
	"path/filepath"
	"slices"
	"strings"
)

// exitMount is the exit code of mount(8) for a failed mount.
const exitMount = 32

// asMountHelper turns the arguments of mount(8) for a file system type into those of the mount command.
// mount(8) calls mount.globalfs SOURCE DIR [-sfnvrw] [-o OPTIONS] [-t TYPE] for globalfs, and mount.fuse3(8)
// calls globalfs SOURCE DIR -o OPTIONS for fuse.globalfs. Is is false for other calls.
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
		case isRemount(a):
			// mount(8) names the flags that are set, of all flags that the mount shall have.
			rewritten = append(rewritten, "rw,suid,dev,exec,symfollow,"+a)
		case !called:
			// mount.fuse3(8) adds these two, also if the user gave neither of them.
			options := slices.DeleteFunc(strings.Split(a, ","), func(o string) bool { return o == "dev" || o == "suid" })
			rewritten = append(rewritten, strings.Join(options, ","))
		default:
			rewritten = append(rewritten, a)
		}
	}
	return rewritten, true
}

// isRemount returns true for the options of `mount -o remount`.
func isRemount(options string) bool {
	return slices.Contains(strings.Split(options, ","), "remount")
}
