package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/trace"
)

// traceOp is an operation that can be traced.
type traceOp struct {
	existing bool // the file is made before, with traceContent
	do       func(path string) error
}

// traceContent is the content of traced files: 1 KiB.
var traceContent = make([]byte, 1024)

var traceOps = map[string]traceOp{
	"create": {do: func(path string) error { return withFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, nothing) }},
	"mkdir":  {do: func(path string) error { return os.Mkdir(path, 0o755) }},
	"write":  {existing: true, do: func(path string) error { return withFile(path, os.O_WRONLY, writeContent) }},
	"fsync": {existing: true, do: func(path string) error {
		return withFile(path, os.O_WRONLY, func(f *os.File) error { return errors.Join(writeContent(f), f.Sync()) })
	}},
	"read": {existing: true, do: func(path string) error {
		_, err := os.ReadFile(path)
		return err
	}},
	"stat": {existing: true, do: func(path string) error {
		_, err := os.Lstat(path)
		return err
	}},
	"readdir": {existing: true, do: func(path string) error {
		_, err := os.ReadDir(filepath.Dir(path))
		return err
	}},
	"rename": {existing: true, do: func(path string) error { return os.Rename(path, path+".renamed") }},
	"unlink": {existing: true, do: os.Remove},
}

func traceOpNames() []string { return slices.Sorted(maps.Keys(traceOps)) }

func nothing(*os.File) error { return nil }

func writeContent(f *os.File) error {
	_, err := f.Write(traceContent)
	return err
}

// withFile opens a file, uses it and closes it.
func withFile(path string, flags int, use func(*os.File) error) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(use(f), f.Close())
}

// prepare makes what the operation needs.
func (o traceOp) prepare(dir, name string) error {
	if !o.existing {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, name), traceContent, 0o644)
}

// try executes the operation and records nothing.
func (o traceOp) try(dir, name string) error {
	if err := o.prepare(dir, name); err != nil {
		return err
	}
	return o.do(filepath.Join(dir, name))
}

// record executes the operation while the mount records its events, and goes on recording for the time after.
// One thread executes it: the mount distinguishes its requests from others by the number of the thread.
func (o traceOp) record(ctx context.Context, dir, name string, after time.Duration) (began time.Time, took time.Duration, _ *trace.Recording, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setxattr(dir, mount.XattrTrace, []byte(trace.MaxTime.String()), 0); err != nil {
		return began, 0, nil, explainTrace(dir, err)
	}
	began = time.Now()
	err = o.do(filepath.Join(dir, name))
	took = time.Since(began)
	if err == nil {
		err = pause.For(ctx, after)
	}
	value := make([]byte, posix.MaxXattr)
	n, stopped := unix.Getxattr(dir, mount.XattrTrace, value)
	if err = errors.Join(err, explainTrace(dir, stopped)); err != nil {
		return began, took, nil, err
	}
	var got trace.Recording
	if err := json.Unmarshal(value[:n], &got); err != nil {
		return began, took, nil, fmt.Errorf("%s: %s: %w: this command and the mount are probably of different versions", dir, mount.XattrTrace, err)
	}
	return began, took, &got, nil
}

// explainTrace is like explain, for the attribute of traces.
func explainTrace(dir string, err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%s: only root and the user of the mount may trace: run it with sudo", dir)
	}
	return explain(dir, err)
}
