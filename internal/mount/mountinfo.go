package mount

import (
	"fmt"
	"os"
	"strings"
)

// mountedFS is a file system in the tree.
type mountedFS struct {
	device string // major:minor
	kind   string // such as "fuse.globalfs"
	source string
}

// mountedAt finds what is mounted exactly at path, which is absolute and without links.
func mountedAt(path string) (found mountedFS, ok bool) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mountedFS{}, false
	}
	return findMount(string(table), path)
}

// findMount looks path up in the text of proc(5) mountinfo; the last one is on top.
func findMount(table, path string) (found mountedFS, ok bool) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(table) {
		left, right, _ := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if len(before) >= 5 && len(after) >= 2 && unescape.Replace(before[4]) == path {
			found, ok = mountedFS{device: before[2], kind: after[0], source: unescape.Replace(after[1])}, true
		}
	}
	return found, ok
}

// readAheadKB is how far the kernel reads ahead of a program that reads in sequence: several requests of one
// block each, so that a file of another region is read at more than one request a round trip. The kernel's
// own limit for FUSE is 128.
const readAheadKB = 8 << 10

// readFarAhead raises the read-ahead of the mount at dir. It needs root.
func readFarAhead(dir string) error {
	there, ok := mountedAt(dir)
	if !ok {
		return fmt.Errorf("no mount at %s", dir)
	}
	return os.WriteFile("/sys/class/bdi/"+there.device+"/read_ahead_kb", fmt.Append(nil, readAheadKB), 0)
}
