package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// Library is a Target through the client library, without the kernel and FUSE.
type Library struct {
	Client *client.Client
	Dir    posix.Ino
}

var nobody = posix.Cred{}

// Create makes an empty file.
func (l Library) Create(ctx context.Context, name string) error {
	a, err := l.Client.Create(ctx, nobody, client.Name{Dir: l.Dir, Name: name}, 0o644, 0)
	if err == nil {
		l.Client.Release(a.Ino)
	}
	return err
}

// Open opens or makes a file.
func (l Library) Open(ctx context.Context, name string) (File, error) {
	a, err := l.Client.Create(ctx, nobody, client.Name{Dir: l.Dir, Name: name}, 0o644, 0)
	if err != nil {
		return nil, err
	}
	return libraryFile{l.Client, a.Ino}, nil
}

// Mkdir makes a directory.
func (l Library) Mkdir(ctx context.Context, name string) (Target, error) {
	return Dir(ctx, l.Client, l.Dir, name)
}

type libraryFile struct {
	client *client.Client
	ino    posix.Ino
}

func (f libraryFile) ReadAt(ctx context.Context, into []byte, offset int64) error {
	n, err := f.client.Read(ctx, f.ino, into, uint64(offset))
	if err == nil && n < len(into) {
		err = errors.New("short read")
	}
	return err
}

func (f libraryFile) WriteAt(ctx context.Context, data []byte, offset int64) error {
	_, err := f.client.Write(ctx, nobody, client.Write{Ino: f.ino, Data: data, Offset: uint64(offset)})
	return err
}

func (f libraryFile) Close(context.Context) error {
	f.client.Release(f.ino)
	return nil
}

// Dir makes a directory for a run below dir.
func Dir(ctx context.Context, c *client.Client, dir posix.Ino, name string) (Library, error) {
	a, err := c.Mkdir(ctx, nobody, client.Name{Dir: dir, Name: name}, 0o755)
	if err != nil {
		return Library{}, fmt.Errorf("directory %s: %w", name, err)
	}
	return Library{Client: c, Dir: a.Ino}, nil
}
