package mount

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/posix"
)

// Attributes of any directory about blocks that no file needs. EPERM unless the user is root or the user of
// this process. EBUSY if this mount is already collecting.
const (
	// XattrGC is the preview of a collection, as JSON: a collector.Report. A read takes as long as the
	// search. Setting the attribute to a grace period, such as 10m, or to nothing for the grace period of the
	// cluster, collects.
	XattrGC = "globalfs.gc"
	// XattrGCDone is the report of the last collection by this mount: ENODATA if there was none.
	XattrGCDone = "globalfs.gc.done"
	// XattrGCProgress is the progress of the present or last collection, as JSON: a progress.State.
	XattrGCProgress = "globalfs.gc.progress"
)

// isOperator reports whether a user may request work of the whole cluster, and memory of this process.
func isOperator(h *fuse.InHeader) bool { return h.Uid == 0 || int(h.Uid) == os.Geteuid() }

// getGC returns the value of XattrGC, XattrGCDone or XattrGCProgress.
func (f *fileSystem) getGC(ctx context.Context, h *fuse.InHeader, name string) ([]byte, error) {
	switch {
	case f.collector == nil:
		return nil, posix.EOPNOTSUPP
	case !isOperator(h):
		return nil, posix.EPERM
	}
	if name == XattrGCProgress {
		return json.Marshal(f.collector.Progress())
	}
	if name == XattrGCDone {
		if done := f.collected.Load(); done != nil {
			return *done, nil
		}
		return nil, posix.ENODATA
	}
	return f.collect(ctx, f.collector.Grace(), true)
}

// setGC collects.
func (f *fileSystem) setGC(ctx context.Context, h *fuse.InHeader, value string) error {
	switch {
	case f.collector == nil:
		return posix.EOPNOTSUPP
	case !isOperator(h):
		return posix.EPERM
	}
	grace := f.collector.Grace()
	if value != "" {
		var err error
		if grace, err = time.ParseDuration(value); err != nil || grace < 0 {
			return posix.EINVAL
		}
	}
	report, err := f.collect(ctx, grace, false)
	if err == nil {
		f.collected.Store(&report)
	}
	return err
}

func (f *fileSystem) collect(ctx context.Context, grace time.Duration, dry bool) ([]byte, error) {
	if !f.collecting.TryLock() {
		return nil, posix.EBUSY
	}
	defer f.collecting.Unlock()
	report, err := f.collector.Once(ctx, grace, dry)
	if err != nil {
		return nil, posix.EINTR // Once fails only if ctx has ended
	}
	return json.Marshal(&report)
}
