package dev

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

const (
	west    topology.Region = "us-west-2"
	east    topology.Region = "us-east-1"
	ireland topology.Region = "eu-west-1"
)

// world is a cluster with a client in each of its regions.
type world struct {
	*Cluster
	clients map[topology.Region]*attach.Client
	roots   map[topology.Region]posix.Ino // of the local partitions
}

// openWorld leaves it to the attach.Caller to close.
func openWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	w := &world{Cluster: c, clients: map[topology.Region]*attach.Client{}, roots: map[topology.Region]posix.Ino{}}
	for _, p := range w.Plan.Partitions[1:] {
		w.roots[p.Region] = p.Root()
		w.clients[p.Region], err = c.Client(p.Region)
		require.NoError(t, err)
	}
	return w
}

// startWorld is openWorld for the length of the test.
func startWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	w := openWorld(t, cfg)
	t.Cleanup(func() { require.NoError(t, w.close()) })
	return w
}

func (w *world) close() error { return errors.Join(w.closeClients(), w.Close()) }

func (w *world) closeClients() (err error) {
	for _, c := range w.clients {
		err = errors.Join(err, c.Close())
	}
	clear(w.clients)
	return err
}

func (w *world) rename(region topology.Region, from, to client.Name) error {
	return w.clients[region].Rename(context.Background(), posix.Cred{}, from, to, 0)
}

// missing fails the test if dir has the name.
func missing(t *testing.T, c *attach.Client, at client.Name) {
	t.Helper()
	_, err := c.Lookup(context.Background(), at.Dir, at.Name)
	require.ErrorIs(t, err, posix.ENOENT, at.Name)
}

// census describes all that stands below dir, a line for each name.
func (w *world) census(t *testing.T, c *attach.Client, dir posix.Ino) map[string]string {
	t.Helper()
	lines := map[string]string{}
	var walk func(dir posix.Ino, at string)
	walk = func(dir posix.Ino, at string) {
		entries, _, err := c.ReadDir(t.Context(), dir, 0, 1000)
		require.NoError(t, err, at)
		for _, e := range entries {
			name := path.Join(at, e.Name)
			a, err := c.GetAttr(t.Context(), e.Attr.Ino)
			require.NoError(t, err, name)
			line := fmt.Sprintf("%d mode=%o nlink=%d size=%d mtime=%d", a.Ino, a.Mode, a.Nlink, a.Size, a.Mtime)
			if a.Mode.IsDir() {
				walk(a.Ino, name)
			} else {
				content := make([]byte, a.Size)
				_, err := c.Read(t.Context(), a.Ino, content, 0)
				require.NoError(t, err, name)
				line += fmt.Sprintf(" sha256=%x", sha256.Sum256(content))
			}
			lines[name] = line
		}
	}
	walk(dir, "/")
	return lines
}

// stopAlike ends everything with all replicas of each partition at the same place, and requires that their states are the same, byte by
// byte, as they are on disk.
func (w *world) stopAlike(t *testing.T) {
	t.Helper()
	require.NoError(t, w.closeClients())
	w.rest() // nobody updates anything any more
	caller := w.network.client(west)
	var before []ask.Status
	require.Eventually(t, func() bool {
		now, alike := w.statuses(t, caller)
		same := alike && len(before) == len(now)
		for i := range now {
			same = same && now[i].Applied == before[i].Applied
		}
		before = now
		return same
	}, 30*time.Second, 200*time.Millisecond, "the replicas of a partition come to the same place")
	require.NoError(t, errors.Join(caller.Close(), w.Close()))

	for _, p := range w.Plan.Partitions {
		var first map[string]string
		for _, r := range p.Replicas {
			state := readState(t, filepath.Join(w.cfg.Dir, r.Server, fmt.Sprintf("partition-%d", p.ID), "state"))
			require.NotEmpty(t, state)
			if first == nil {
				first = state
			}
			require.Equal(t, len(first), len(state), "partition %d on %s", p.ID, r.Server)
			for key, value := range first {
				require.Equal(t, value, state[key], "partition %d on %s, key %x", p.ID, r.Server, key)
			}
		}
	}
}

// statuses asks all replicas, and reports whether those of each partition are at the same place.
func (w *world) statuses(t *testing.T, caller attach.Caller) (all []ask.Status, alike bool) {
	alike = true
	for _, p := range w.Plan.Partitions {
		for i, r := range p.Replicas {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			request := ask.Request{Kind: ask.AskStatus}
			answer, err := caller.Call(ctx, r.Process, request.Append(nil))
			cancel()
			reply, bad := ask.DecodeReply(answer)
			if cmp.Or(err, bad) != nil {
				return nil, false // it is starting, or takes over a state
			}
			status, err := ask.DecodeStatus(reply.Result)
			require.NoError(t, err)
			all = append(all, status)
			first := &all[len(all)-1-i]
			alike = alike && status.Applied == first.Applied && status.Undecided == 0
		}
	}
	return all, alike
}

func readState(t *testing.T, dir string) map[string]string {
	t.Helper()
	store, err := kv.Open(dir, kv.Options{})
	require.NoError(t, err)
	defer store.Close()
	state := map[string]string{}
	for key, value := range store.Scan(nil, nil) {
		state[string(key)] = string(value)
	}
	require.NoError(t, store.Err())
	return state
}
