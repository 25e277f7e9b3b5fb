package mount

import (
	"os"
	"path/filepath"
	"strings"
)

// mountedAt says what kind of file system is mounted exactly at dir.
func mountedAt(dir string) (kind string, ok bool) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", false
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) >= 3 && unescape.Replace(fields[1]) == path {
			kind, ok = fields[2], true // the last one is on top
		}
	}
	return kind, ok
}
