package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
)

// logMended logs which small files of a data directory were damaged and were restored from their copy
// (durable.ReadCopied), since the disk may be failing.
func logMended(of string, d *description, logger *slog.Logger) {
	dirs := []string{of}
	for _, p := range d.cluster.Partitions {
		dirs = append(dirs, filepath.Join(of, topology.PartitionDir(p.ID)))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // there is no replica here, or the code that needs the directory reports the error
		}
		for _, e := range entries {
			if name, is := strings.CutSuffix(e.Name(), durable.DamagedSuffix); is && !e.IsDir() {
				logger.Warn("a damaged file was restored from its copy: check the disk and the memory of this host, and then remove the damaged file",
					"file", filepath.Join(dir, name), "damaged", filepath.Join(dir, e.Name()))
			}
		}
	}
}
