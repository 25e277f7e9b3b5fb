package cli

import (
	"path/filepath"
	"strings"
)

// exitMount is mount(8)'s code for a mount that failed.
const exitMount = 32

// asMountHelper turns how mount(8) calls the program for a file system type into the command that does it. It
// is called as mount.globalfs SOURCE DIR [-sfnvrw] [-o OPTIONS] [-t TYPE] for globalfs, and by mount.fuse3(8)
// as globalfs SOURCE DIR -o OPTIONS for fuse.globalfs. Is is false if this is no such call.
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
		default:
			rewritten = append(rewritten, a)
		}
	}
	return rewritten, true
}
