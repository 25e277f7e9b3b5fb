package bench

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Directory is a Target on a mount: it measures the view of a program, including the kernel and FUSE. Files
// are opened with O_DIRECT: reads bypass the page cache of the kernel, as in the thesis' benchmark, and the
// mount orders each write before it returns.
type Directory string

// Create makes an empty file.
func (d Directory) Create(_ context.Context, name string) error {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open opens or makes a file.
func (d Directory) Open(_ context.Context, name string) (File, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o644)
	if err != nil {
		return nil, err
	}
	return directoryFile{f}, nil
}

// Mkdir makes a directory.
func (d Directory) Mkdir(_ context.Context, name string) (Target, error) {
	path := filepath.Join(string(d), name)
	return Directory(path), os.Mkdir(path, 0o755)
}

type directoryFile struct{ f *os.File }

func (f directoryFile) ReadAt(_ context.Context, into []byte, offset int64) error {
	_, err := f.f.ReadAt(into, offset)
	return err
}

func (f directoryFile) WriteAt(_ context.Context, data []byte, offset int64) error {
	_, err := f.f.WriteAt(data, offset)
	return err
}

func (f directoryFile) Close(context.Context) error { return f.f.Close() }
