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

// setControl sets a control attribute. The kernel has checked that the user may write the inode.
func (f *fileSystem) setControl(ctx context.Context, h *fuse.InHeader, name string, value []byte) (err error) {
	value = bytes.TrimSpace(value)
	if name == XattrTrace {
		return f.traces.start(h, string(value))
	}
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

// owns refuses users who may not set the placement of a directory, which moves the data of all users in it.
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

// parsePlace decodes a Place. It refuses unknown fields, so that a misspelt field is not ignored.
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

// setTask pauses or resumes the task of a directory. It returns ENODATA if there is none. The task may be in
// another partition than the directory, because a directory moves before its contents.
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

// wait returns when every later system call on this mount sees all updates that the token covers.
//
// The client does its part at once, but the kernel uses cached entries for the cache time. The kernel has no
// request to drop its whole cache. The mount would have to expire names one by one, from a table of all
// cached names. Each such notice locks the directory, and the kernel holds that lock while it waits for the
// present request if the request concerns the directory. So wait waits for the cache time instead: this needs
// no table and cannot deadlock.
func (f *fileSystem) wait(ctx context.Context, token string) error {
	if err := f.client.Wait(ctx, strings.TrimSpace(token)); err != nil {
		return err
	}
	f.notices.catchUp(ctx)
	timer := time.NewTimer(f.cacheTime + f.cacheTime/answerShare)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return posix.EINTR
	}
}

// answerShare divides the cache time: wait also waits for the quotient. In this time an answer from before
// the wait reaches the kernel, which uses it for the cache time from then on.
const answerShare = 10
