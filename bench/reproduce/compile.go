package reproduce

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/globalfs/globalfs/internal/bench/compare"
)

// published has the times of Table 3.3 on a local partition, as multiples of those on NFS.
var published = map[string]map[string]float64{
	"bc":    {"untar": 1.36, "configure": 2.02, "make": 1.16},
	"httpd": {"untar": 1.08, "configure": 2.04, "make": 0.36},
}

// slow is the multiple of the time on loopback FUSE above which a finding differs: the highest that the
// thesis has for a local partition and NFS.
const slow = 2.5

// compilations checks Table 3.3 with measurements of `globalfs-lab mount` on processes.
func (j *job) compilations() error {
	for _, given := range j.Compiled {
		name, file, _ := strings.Cut(given, "=")
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var rows []compare.Row
		if err := json.Unmarshal(b, &rows); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		seconds := map[string]map[string]float64{}
		for _, r := range rows {
			if seconds[r.Measure] == nil {
				seconds[r.Measure] = map[string]float64{}
			}
			seconds[r.Measure][r.Directory] = r.Seconds
		}
		for _, measure := range []string{"untar", "configure", "make"} {
			of := seconds[measure]
			if of["globalfs"] == 0 || of["loopback"] == 0 {
				continue
			}
			ratio := of["globalfs"] / of["loopback"]
			j.check(fmt.Sprintf("Table 3.3, %s of %s", measure, name), fmt.Sprintf("on a local partition %.2f times the time of NFS", published[name][measure]), ratio <= slow,
				"NFS does not run here; loopback FUSE has no servers, replicas and TLS. Extracting an archive is a chain of changes, and all processes share two processors with the work itself.",
				"%.2f times loopback FUSE, %.2f times the local disk: %.1f s, %.1f s and %.1f s", ratio, of["globalfs"]/of["disk"], of["globalfs"], of["loopback"], of["disk"])
		}
	}
	return nil
}

// validateCompiled names the wrong value and the remedy.
func (o *Options) validateCompiled() error {
	for _, given := range o.Compiled {
		if name, file, ok := strings.Cut(given, "="); !ok || published[name] == nil || file == "" {
			return fmt.Errorf("compilation %q: give bc=FILE or httpd=FILE, with the mount.json of 'globalfs-lab mount'", given)
		}
	}
	return nil
}
