package mount

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/metrics"
)

// operationNames are what operations are called in metrics, by their numbers in the protocol.
var operationNames = [...]string{
	1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename",
	13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr", 23: "listxattr",
	24: "removexattr", 25: "flush", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir", 31: "getlk", 32: "setlk", 33: "setlkw",
	34: "access", 35: "create", 36: "interrupt", 39: "ioctl", 40: "poll", 43: "fallocate", 44: "readdirplus", 45: "rename2", 46: "lseek",
	47: "copy_file_range", 50: "syncfs", 51: "tmpfile", 52: "statx",
}

// operationName gives the number of one that has no name.
func operationName(op int) string {
	if op < len(operationNames) && operationNames[op] != "" {
		return operationNames[op]
	}
	return fmt.Sprint(op)
}

// operations counts what was answered.
type operations struct {
	took [64]metrics.Durations // by number; of larger ones only errors are counted

	mu     sync.Mutex
	failed map[failure]uint64 // GUARDED_BY mu
}

type failure struct {
	operation int
	errno     unix.Errno
}

func (o *operations) answered(op uint32, took time.Duration, status int32) {
	if op < uint32(len(o.took)) {
		o.took[op].Observe(took)
	}
	if status != 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed[failure{int(op), unix.Errno(-status)}]++
	}
}

// Metrics tells what the mount, of that name, has answered since this process serves it.
func (m *Mount) Metrics(report metrics.Report, mount string) {
	o := &m.server.operations
	for op := range o.took {
		report.Durations(metrics.Operations, &o.took[op], mount, operationName(op))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for f, n := range o.failed {
		name := unix.ErrnoName(f.errno)
		if name == "" {
			name = fmt.Sprint(int(f.errno))
		}
		report.Value(metrics.OperationErrors, float64(n), mount, operationName(f.operation), name)
	}
}
