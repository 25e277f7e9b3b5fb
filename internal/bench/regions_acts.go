package bench

import (
	"context"
	"fmt"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// act is one operation of a client. Each step executes it once.
type act struct {
	name  string
	reads bool // calls no server outside the region
	step  func(ctx context.Context) error
}

// post is a client with its own working directories.
type post struct {
	region topology.Region
	client *client.Client
	local  posix.Ino // in the partition of its region
	global posix.Ino
	other  posix.Ino // in the partition of the first other region; with one region, in the global one
	sends  posix.Ino // a local directory that places its files in the partition of other
	made   int       // files
}

// post makes the directories of the client in a region.
func (w *World) post(ctx context.Context, region topology.Region) (*post, error) {
	p := &post{region: region, client: w.Clients[region]}
	elsewhere, root := client.Global, posix.Root
	for _, r := range w.Regions {
		if r != region {
			elsewhere, root = r, w.root(r)
			break
		}
	}
	name := "bench-" + string(region)
	for _, d := range []struct {
		into *posix.Ino
		at   client.Name
	}{
		{&p.local, client.Name{Dir: w.root(region), Name: name}},
		{&p.global, client.Name{Dir: posix.Root, Name: name}},
		{&p.other, client.Name{Dir: root, Name: name + "-other"}},
		{&p.sends, client.Name{Dir: w.root(region), Name: name + "-sends"}},
	} {
		a, err := p.client.Mkdir(ctx, nobody, d.at, 0o755)
		if err != nil {
			return nil, fmt.Errorf("directory %s: %w", d.at.Name, err)
		}
		*d.into = a.Ino
	}
	if err := p.client.Place(ctx, nobody, p.sends, client.Placement{Spread: []topology.Region{elsewhere}}); err != nil {
		return nil, fmt.Errorf("place a directory's files in %s: %w", elsewhere, err)
	}
	return p, nil
}

// root returns the root of a region's partition.
func (w *World) root(region topology.Region) posix.Ino {
	for _, p := range w.Clients[region].Cluster().Partitions {
		if p.Region == region {
			return p.Root()
		}
	}
	return posix.Root
}

func (p *post) localActs(ctx context.Context) ([]act, error)  { return p.fileActs(ctx, p.local) }
func (p *post) globalActs(ctx context.Context) ([]act, error) { return p.fileActs(ctx, p.global) }

// fileActs returns the acts on one file, and the act that makes files, in one directory.
func (p *post) fileActs(ctx context.Context, dir posix.Ino) ([]act, error) {
	file, err := p.file(ctx, client.Name{Dir: dir, Name: "file"}, fileSize)
	if err != nil {
		return nil, err
	}
	buffer, reads, writes := make([]byte, chunk), uint64(0), uint64(0)
	return []act{
		{"create", false, p.create(dir)},
		{"stat", true, func(ctx context.Context) error {
			_, err := p.client.GetAttr(ctx, file)
			return err
		}},
		{"read 1 KB", true, func(ctx context.Context) error {
			reads++
			_, err := p.client.Read(ctx, file, buffer, reads%(fileSize/chunk)*chunk)
			return err
		}},
		{"write 1 KB", false, func(ctx context.Context) error {
			writes++
			_, err := p.client.Write(ctx, nobody, client.Write{Ino: file, Data: buffer, Offset: writes % (fileSize / chunk) * chunk})
			return err
		}},
	}, nil
}

// betweenActs returns the acts of two partitions.
func (p *post) betweenActs(ctx context.Context) ([]act, error) {
	linked, err := p.file(ctx, client.Name{Dir: p.local, Name: "linked"}, chunk)
	if err != nil {
		return nil, err
	}
	rename, err := p.rename(ctx, "renamed")
	if err != nil {
		return nil, err
	}
	links := 0
	return []act{
		{"create", false, p.create(p.sends)},
		{"rename", false, rename},
		{"link", false, func(ctx context.Context) error {
			links++
			_, err := p.client.Link(ctx, nobody, linked, client.Name{Dir: p.other, Name: fmt.Sprint("link-", links)})
			return err
		}},
	}, nil
}

// file makes a file with content.
func (p *post) file(ctx context.Context, at client.Name, size int) (posix.Ino, error) {
	a, err := p.client.Create(ctx, nobody, at, 0o644, 0)
	if err != nil {
		return 0, fmt.Errorf("file %s: %w", at.Name, err)
	}
	defer p.client.Release(a.Ino)
	if _, err := p.client.Write(ctx, nobody, client.Write{Ino: a.Ino, Data: make([]byte, size)}); err != nil {
		return 0, fmt.Errorf("file %s: %w", at.Name, err)
	}
	return a.Ino, nil
}

// create returns a step that makes a new empty file.
func (p *post) create(dir posix.Ino) func(context.Context) error {
	return func(ctx context.Context) error {
		p.made++
		a, err := p.client.Create(ctx, nobody, client.Name{Dir: dir, Name: fmt.Sprint("new-", p.made)}, 0o644, 0)
		if err == nil {
			p.client.Release(a.Ino)
		}
		return err
	}
}

// rename returns a step that renames a file of 1 KB between the region and the other one, back and forth.
func (p *post) rename(ctx context.Context, name string) (func(context.Context) error, error) {
	from, to := client.Name{Dir: p.local, Name: name}, client.Name{Dir: p.other, Name: name}
	if _, err := p.file(ctx, from, chunk); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		err := p.client.Rename(ctx, nobody, from, to, 0)
		if err == nil {
			from, to = to, from
		}
		return err
	}, nil
}

// renames returns the condition that p renames a file between its region and the other one without a pause.
func renames(ctx context.Context, p *post) (func(context.Context) (func() error, error), error) {
	rename, err := p.rename(ctx, "to-and-fro")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (func() error, error) {
		if err := rename(ctx); err != nil {
			return nil, err
		}
		done, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				select {
				case <-done:
					ended <- nil
					return
				default:
				}
				if err := rename(ctx); err != nil {
					ended <- fmt.Errorf("rename by the client in %s: %w", p.region, err)
					return
				}
			}
		}()
		return func() error { close(done); return <-ended }, nil
	}, nil
}

// cut returns the condition that the region of p is cut off. Its end waits until p can update the global
// partition.
func (w *World) cut(p *post) func(context.Context) (func() error, error) {
	update := p.create(p.global)
	return func(ctx context.Context) (func() error, error) {
		if err := w.Cut(p.region); err != nil {
			return nil, err
		}
		return func() error {
			if err := w.Cut(); err != nil {
				return err
			}
			return update(ctx)
		}, nil
	}
}
