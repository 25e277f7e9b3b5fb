package mount

import (
	"context"
	"encoding/json"

	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/posix"
)

// Attributes of any directory whose value is what a check of the whole cluster has found, as JSON: an
// fsck.Report. Reading one takes as long as the check. Only root, and the user that this process runs as,
// may: EPERM. EBUSY if this mount is already checking.
const (
	XattrFsck       = "globalfs.fsck"        // looks for some of the blocks
	XattrFsckBlocks = "globalfs.fsck.blocks" // looks for all
)

// someBlocks is how many blocks of each partition XattrFsck looks for.
const someBlocks = 1000

// fsck checks the cluster with its blocks, some of them or all.
func (f *fileSystem) fsck(ctx context.Context, allBlocks bool) ([]byte, error) {
	if !f.checking.TryLock() {
		return nil, posix.EBUSY
	}
	defer f.checking.Unlock()
	o := fsck.Options{Partitions: len(f.client.Cluster().Partitions), Blocks: someBlocks}
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
