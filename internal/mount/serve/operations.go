package serve

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/metrics"
)

// operations counts the answers.
type operations struct {
	took [64]metrics.Durations // by number; of larger numbers only errors are counted

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

// Metrics reports the operations of the mount, under that name, since this process serves it.
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
