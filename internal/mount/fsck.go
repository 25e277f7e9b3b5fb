package mount

import (
	"context"
	"encoding/json"

	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/posix"
)

// Attributes of any directory with the result of a check of the whole cluster, as JSON: an fsck.Report. A
// read of the attribute takes as long as the check. EPERM unless the user is root or the user of this
// process. EBUSY if this mount is already checking.
const (
	XattrFsck       = "globalfs.fsck"        // checks some of the blocks
	XattrFsckBlocks = "globalfs.fsck.blocks" // checks all blocks
	// XattrFsckProgress is the progress of the present or last check, as JSON: a progress.State.
	XattrFsckProgress = "globalfs.fsck.progress"
)

// someBlocks is the number of blocks of each partition that XattrFsck checks.
const someBlocks = 1000

// fsck checks the cluster with its blocks, some of them or all.
func (f *fileSystem) fsck(ctx context.Context, allBlocks bool) ([]byte, error) {
	if !f.checking.TryLock() {
		return nil, posix.EBUSY
	}
	defer f.checking.Unlock()
	o := fsck.Options{Partitions: len(f.client.Cluster().Partitions), Blocks: someBlocks, Progress: &f.checked}
	if allBlocks {
		o.Blocks = fsck.AllBlocks
	}
	report, err := fsck.Online(ctx, f.client, o)
	if err != nil {
		return nil, err
	}
	return fitting(&report)
}

// fitting encodes a report with as many problems as an attribute can hold.
func fitting(r *fsck.Report) ([]byte, error) {
	for {
		value, err := json.Marshal(r)
		if err != nil || len(value) <= posix.MaxXattr || len(r.Problems) == 0 {
			return value, err
		}
		r.Cut(len(r.Problems) / 2)
	}
}
