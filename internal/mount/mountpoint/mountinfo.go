package mountpoint

import (
	"fmt"
	"os"
	"strings"
)

// FileSystem is a mounted file system, as proc(5) mountinfo shows it.
type FileSystem struct {
	Device string // major:minor
	Kind   string // such as "fuse.globalfs"
	Source string
}

// At returns the file system that is mounted exactly at path, an absolute path without links.
func At(path string) (found FileSystem, ok bool) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return FileSystem{}, false
	}
	return findMount(string(table), path)
}

// findMount looks path up in the text of proc(5) mountinfo; the last one is on top.
func findMount(table, path string) (found FileSystem, ok bool) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(table) {
		left, right, _ := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if len(before) >= 5 && len(after) >= 2 && unescape.Replace(before[4]) == path {
			found, ok = FileSystem{Device: before[2], Kind: after[0], Source: unescape.Replace(after[1])}, true
		}
	}
	return found, ok
}

// readAheadKB is how far the kernel reads ahead of a program that reads in sequence: several requests of one
// block each, so that a file of another region is read at more than one request a round trip. The kernel's
// own limit for FUSE is 128.
const readAheadKB = 8 << 10

// ReadFarAhead raises the read-ahead of the mount at dir. It needs root.
func ReadFarAhead(dir string) error {
	there, ok := At(dir)
	if !ok {
		return fmt.Errorf("no mount at %s", dir)
	}
	return os.WriteFile("/sys/class/bdi/"+there.Device+"/read_ahead_kb", fmt.Append(nil, readAheadKB), 0)
}
