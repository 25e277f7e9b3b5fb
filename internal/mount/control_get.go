package mount

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// isControl reports whether an attribute controls the mount, and is not stored with the inode.
func isControl(name string) bool { return strings.HasPrefix(name, "globalfs.") }

// getControl returns the value of a control attribute of an inode. It returns EOPNOTSUPP if no such attribute
// can be read.
func (f *fileSystem) getControl(ctx context.Context, h *fuse.InHeader, name string) ([]byte, error) {
	switch list, after, err := pageOf(name); {
	case err != nil:
		return nil, err
	case list == XattrTasks:
		return f.tasks(ctx, h, after)
	case list == XattrPlacements:
		return f.placements(ctx, h, after)
	}
	if name == XattrToken || name == XattrSync {
		if err := f.written.settleAll(ctx); err != nil {
			return nil, err
		}
		if err := f.client.Drain(ctx); err != nil {
			return nil, err
		}
	}
	switch name {
	case XattrToken:
		return []byte(f.client.Token()), nil
	case XattrSync:
		answer, err := f.persister.syncAll(ctx)
		if f.written.takeUnreportedLosses() {
			err = posix.EIO
		}
		return answer, err
	case XattrRegions:
		return json.Marshal(f.client.Cluster().Regions)
	case XattrCounters:
		return json.Marshal(countersOf(f))
	case XattrStale:
		age, err := f.client.Stale(ctx, ino(h))
		return strconv.AppendInt(nil, inMilliseconds(age), 10), err
	case XattrFsck, XattrFsckBlocks, XattrFsckProgress:
		if !isOperator(h) {
			return nil, posix.EPERM
		}
		if name == XattrFsckProgress {
			return json.Marshal(f.checked.State())
		}
		return f.fsck(ctx, name == XattrFsckBlocks)
	case XattrTrace:
		return f.traces.stop(h)
	case XattrInfo:
		info, err := inspector{f}.info(ctx, ino(h))
		if err != nil {
			return nil, err
		}
		return info.fitting()
	case XattrGC, XattrGCDone, XattrGCProgress:
		return f.getGC(ctx, h, name)
	case XattrTask:
		t, err := f.taskOf(ctx, ino(h))
		if err != nil {
			return nil, err
		}
		return json.Marshal(t)
	case XattrRegion:
		_, at, err := f.client.Where(ctx, ino(h))
		return []byte(f.region(at)), err
	case XattrWhere, XattrPlace:
		w, err := f.where(ctx, ino(h))
		if err != nil {
			return nil, err
		}
		return w.attribute(name)
	}
	return nil, posix.EOPNOTSUPP
}

// attribute returns the part of a Where that a control attribute has.
func (w *Where) attribute(name string) ([]byte, error) {
	switch {
	case name == XattrPlace && w.Rule != nil:
		return json.Marshal(w.Rule)
	case name == XattrWhere:
		return json.Marshal(w)
	}
	return nil, posix.ENODATA
}

// inMilliseconds rounds up: the data is not older than the reported age.
func inMilliseconds(age time.Duration) int64 {
	return int64((age + time.Millisecond - 1) / time.Millisecond)
}

func (f *fileSystem) where(ctx context.Context, i posix.Ino) (*Where, error) {
	l, err := f.client.Locate(ctx, i)
	if err != nil {
		return nil, err
	}
	w := &Where{
		Inode: uint64(i), Partition: l.Partition, Region: f.region(l.Partition), Why: l.Why, Rule: f.rule(&l.Rule),
	}
	for _, r := range l.Replicas {
		w.Replicas = append(w.Replicas, Replica{Process: uint32(r.Process), Server: r.Server, Region: r.Region})
		if r.Process == l.Leader {
			w.Leader = r.Server
		}
	}
	switch {
	case l.Task != nil:
		w.Task = new(f.task(l.Task))
	case l.Partition != i.Partition():
		// A directory moves before its contents, so its task may still be in the old partition. Tasks does
		// not wait for partitions that are out of reach.
		w.Task, _ = f.taskOf(ctx, i)
	}
	return w, nil
}

// taskOf returns the task of a directory, from any partition. It returns ENODATA if there is none.
func (f *fileSystem) taskOf(ctx context.Context, dir posix.Ino) (*Task, error) {
	all, err := f.client.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(t client.PartitionTask) bool { return t.Dir == dir })
	if at < 0 {
		return nil, posix.ENODATA
	}
	return new(f.task(&all[at].Task)), nil
}

// region returns the region of a partition, or Global.
func (f *fileSystem) region(partition uint16) topology.Region {
	partitions := f.client.Cluster().Partitions
	if int(partition) < len(partitions) && partitions[partition].Region != "" {
		return partitions[partition].Region
	}
	return Global
}

// rule converts r to a Rule; nil if r is empty.
func (f *fileSystem) rule(r *meta.Rule) *Rule {
	switch len(r.Spread) {
	case 0:
		return nil
	case 1:
		return &Rule{Region: f.region(r.Spread[0])}
	}
	var rule Rule
	for _, p := range r.Spread {
		rule.Spread = append(rule.Spread, f.region(p))
	}
	return &rule
}

func (f *fileSystem) task(t *meta.Task) Task {
	return Task{Inode: uint64(t.Dir), Target: f.region(t.Target), Moved: t.Moved, Paused: t.Paused}
}

// pageOf decodes the output of PageOf.
func pageOf(name string) (list string, after int, err error) {
	for _, list := range []string{XattrTasks, XattrPlacements} {
		rest, ok := strings.CutPrefix(name, list+".")
		if !ok {
			continue
		}
		if after, err = strconv.Atoi(rest); err != nil || after < 0 {
			return "", 0, posix.EOPNOTSUPP
		}
		return list, after, nil
	}
	return name, 0, nil
}

func (f *fileSystem) tasks(ctx context.Context, h *fuse.InHeader, after int) ([]byte, error) {
	all, err := f.client.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b client.PartitionTask) int { return compareInos(a.Dir, b.Dir) })
	return page(all, after, func(t *client.PartitionTask) Task {
		task := f.task(&t.Task)
		task.Path = f.pathFor(ctx, h, t.Dir)
		return task
	})
}

func (f *fileSystem) placements(ctx context.Context, h *fuse.InHeader, after int) ([]byte, error) {
	all, err := f.client.Placements(ctx)
	if err != nil {
		return nil, err
	}
	return page(all, after, func(p *meta.Placement) Placement {
		placement := Placement{Inode: uint64(p.Dir), Path: f.pathFor(ctx, h, p.Dir), Target: f.region(p.Target)}
		if rule := f.rule(&p.Rule); rule != nil {
			placement.Rule = *rule
		}
		return placement
	})
}

// page returns the entries after the first after ones as a JSON list, as many as fit into an attribute.
func page[From, To any](all []From, after int, say func(*From) To) ([]byte, error) {
	text := []byte{'['}
	for i := min(after, len(all)); i < len(all); i++ {
		row, err := json.Marshal(say(&all[i]))
		if err != nil {
			return nil, err
		}
		if len(text)+len(row)+len(",]") > posix.MaxXattr {
			break
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, row...)
	}
	return append(text, ']'), nil
}
