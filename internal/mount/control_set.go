package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// setControl does what a mount is told of a directory; the kernel has checked that the user may write it.
func (f *fileSystem) setControl(ctx context.Context, h *fuse.InHeader, name string, value []byte) (err error) {
	value = bytes.TrimSpace(value)
	var wanted Place
	switch name {
	case XattrRegion:
		wanted = Place{Rule: Rule{Region: topology.Region(value)}, Move: len(value) > 0}
	case XattrPlace:
		wanted, err = parsePlace(value)
	case XattrTask:
	default:
		return posix.EOPNOTSUPP
	}
	if err != nil {
		return err
	}
	if err := f.owns(ctx, h); err != nil {
		return err
	}
	if name == XattrTask {
		return f.setTask(ctx, ino(h), string(value))
	}
	return f.client.Place(ctx, cred(h), ino(h), client.Placement{Region: wanted.Region, Spread: wanted.Spread, Move: wanted.Move})
}

// owns refuses who may not say where a directory is: the bytes of all that are in it would follow.
func (f *fileSystem) owns(ctx context.Context, h *fuse.InHeader) error {
	a, err := f.client.GetAttr(ctx, ino(h))
	switch {
	case err != nil:
		return err
	case !a.Mode.IsDir():
		return posix.ENOTDIR
	case h.Uid != 0 && h.Uid != a.UID:
		return posix.EPERM
	}
	return nil
}

// parsePlace reads a Place strictly: a field that is misspelt must not be one that is missing.
func parsePlace(value []byte) (p Place, err error) {
	if len(value) == 0 {
		return Place{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(&p) != nil || d.More() {
		return Place{}, posix.EINVAL
	}
	return p, nil
}

// setTask stops the task of a directory or lets it go on: ENODATA if it has none. The task may be in another
// partition than the directory, which goes ahead of what is in it.
func (f *fileSystem) setTask(ctx context.Context, dir posix.Ino, value string) error {
	flags, ok := map[string]uint32{TaskPause: meta.TaskPause, TaskResume: meta.TaskResume}[value]
	if !ok {
		return posix.EINVAL
	}
	all, err := f.client.Tasks(ctx)
	if err != nil {
		return err
	}
	err = posix.ENODATA
	for _, t := range all {
		if t.Dir != dir {
			continue
		}
		if err = f.client.SetTask(ctx, t, flags); err != nil {
			return err
		}
	}
	return err
}

// wait returns when every system call on this mount that begins afterwards shows at least what token's owner
// had seen.
//
// The client does its part at once, but the kernel goes on believing what it was told before, for the cache
// time. It cannot be made to forget all: names would have to be recalled one by one, out of a table of all
// that it knows, and each recall locks the directory, which the kernel holds locked while it waits for this
// very request if it came for that directory. So its belief is waited out; there is nothing to keep, and
// nothing can lock up.
func (f *fileSystem) wait(ctx context.Context, token string) error {
	if err := f.client.Wait(ctx, strings.TrimSpace(token)); err != nil {
		return err
	}
	timer := time.NewTimer(f.cacheTime + f.cacheTime/believedLate)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return posix.EINTR
	}
}

// believedLate is the part of the cache time that is waited longer, for answers that were on their way to the
// kernel.
const believedLate = 10
