package dev

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// A region is cut off while commands are in flight from both sides of the cut. The other regions continue:
// reads and local updates do not wait, commands between them are executed, and the names of the commands that
// they coordinate become free. A command that was reported as failed is not executed later.
func TestCutWithCommandsInFlight(t *testing.T) {
	cfg := cutConfig(t)
	cfg.Timeout = 8 * time.Second
	w := startWorld(t, cfg)
	at := func(r topology.Region, name string) client.Name { return client.Name{Dir: w.roots[r], Name: name} }
	inode := map[topology.Region]posix.Ino{}
	for r, root := range w.roots {
		write(t, w.clients[r], root, "stays", string(r))
		write(t, w.clients[r], root, "moves", string(r))
		a, err := w.clients[r].Lookup(t.Context(), root, "stays")
		require.NoError(t, err)
		inode[r] = a.Ino
	}
	link := func(r topology.Region, ino posix.Ino, to client.Name) error {
		_, err := w.clients[r].Link(context.WithoutCancel(t.Context()), posix.Cred{}, ino, to)
		return err
	}
	// All partitions can reach each other, and the clients know the places of the inodes.
	require.NoError(t, link(west, inode[ireland], at(west, "before")))
	require.NoError(t, link(ireland, inode[east], at(ireland, "before")))
	require.NoError(t, link(east, inode[west], at(east, "before")))
	require.NoError(t, link(east, inode[east], client.Name{Dir: posix.Root, Name: "before"}))

	require.NoError(t, w.Cut(ireland))
	begin := time.Now()
	inFlight := map[string]chan error{}
	for name, do := range map[string]func() error{
		"west to ireland":       func() error { return link(west, inode[ireland], at(west, "in flight")) },
		"ireland to east":       func() error { return link(ireland, inode[east], at(ireland, "in flight")) },
		"rename out of ireland": func() error { return w.rename(east, at(ireland, "moves"), at(east, "moved")) },
		"rename into ireland":   func() error { return w.rename(west, at(west, "moves"), at(ireland, "moved")) },
	} {
		ended := make(chan error, 1)
		inFlight[name] = ended
		go func() { ended <- do() }()
	}
	w.worksOn(t, link, at, inode)

	// The names of the commands coordinated in the west are free.
	require.Eventually(t, func() bool {
		_, err := w.clients[west].Create(t.Context(), posix.Cred{}, at(west, "in flight"), 0o600, 0)
		return err == nil
	}, 5*time.Second, 50*time.Millisecond)
	assert.Less(t, time.Since(begin), 7*time.Second)
	for name, ended := range inFlight {
		assert.ErrorIs(t, <-ended, posix.ETIMEDOUT, name)
	}
	w.worksOn(t, link, at, inode)

	require.NoError(t, w.Cut())
	for r := range w.roots {
		quick(t, func() error { return link(r, inode[east], at(ireland, "after from "+string(r))) })
	}
	missing(t, w.clients[east], at(east, "moved"))
	missing(t, w.clients[west], at(ireland, "moved"))
	missing(t, w.clients[ireland], at(ireland, "in flight"))
	a, err := w.clients[west].Lookup(t.Context(), w.roots[west], "in flight")
	require.NoError(t, err)
	require.NotEqual(t, inode[ireland], a.Ino, "the link that timed out has not happened")
	for r, root := range w.roots {
		require.Equal(t, string(r), read(t, w.clients[r], root, "moves"))
	}
}

// worksOn reads, updates and links in the regions outside of a cut, in each of them and between them.
func (w *world) worksOn(t *testing.T, link func(topology.Region, posix.Ino, client.Name) error, at func(topology.Region, string) client.Name, inode map[topology.Region]posix.Ino) {
	t.Helper()
	number := time.Now().Format("150405.000000")
	for _, r := range []topology.Region{east, west} {
		quick(t, func() error { return link(east, inode[west], at(r, "between "+number)) })
		quick(t, func() error { return link(r, inode[r], client.Name{Dir: posix.Root, Name: string(r) + number}) })
		for _, reader := range []topology.Region{east, west} {
			quick(t, func() error { _, err := w.clients[reader].Lookup(t.Context(), w.roots[r], "stays"); return err })
			quick(t, func() error {
				_, err := w.clients[reader].Mkdir(t.Context(), posix.Cred{}, at(r, string(reader)+number), 0o755)
				return err
			})
			quick(t, func() error {
				_, err := w.clients[reader].Lookup(t.Context(), posix.Root, string(r)+number)
				return err
			})
		}
	}
}
