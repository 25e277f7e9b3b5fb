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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
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

// openWorld starts a world. The caller closes it.
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

// startWorld is openWorld until the end of the test.
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

// census describes all files below dir, with a line for each name.
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

// stopAlike stops everything with all replicas of each partition at the same position, and requires that
// their states on disk are equal byte by byte.
func (w *world) stopAlike(t *testing.T) {
	t.Helper()
	require.NoError(t, w.closeClients())
	for stops := 1; ; stops++ {
		w.settle(t)
		require.NoError(t, w.Close())
		if w.alike(t) {
			return
		}
		// An entry was still being ordered, such as the end of the session of a closed client, and the
		// replicas stopped in its middle.
		t.Log("stopped in the middle of an entry")
		require.Less(t, stops, 5, "the replicas of a partition stop at the same place")
		var err error
		w.Cluster, err = Start(t.Context(), w.cfg)
		require.NoError(t, err)
	}
}

// settle waits until all replicas of each partition are at the same position, and stay there for a while.
func (w *world) settle(t *testing.T) {
	t.Helper()
	w.rest() // no updates follow
	caller := w.network.client(west)
	defer func() { require.NoError(t, caller.Close()) }()
	var before []ask.Status
	require.Eventually(t, func() bool {
		now, alike := w.statuses(t, caller)
		same := alike && len(before) == len(now)
		for i := range now {
			same = same && now[i].Applied == before[i].Applied
		}
		before = now
		return same
	}, 2*time.Minute, 200*time.Millisecond, "the replicas of a partition come to the same place")
}

// alike requires that replicas at the same position have the same state on disk. It reports whether all
// replicas of each partition are at the same position.
func (w *world) alike(t *testing.T) bool {
	t.Helper()
	all := true
	for _, p := range w.Plan.Partitions {
		first := map[multicast.Position]map[string]string{} // by position
		for _, r := range p.Replicas {
			at, state := readState(t, filepath.Join(w.cfg.Dir, r.Server, topology.PartitionDir(p.ID), "state"))
			require.NotEmpty(t, state)
			if first[at] == nil {
				first[at] = state
			}
			require.Equal(t, len(first[at]), len(state), "partition %d on %s", p.ID, r.Server)
			for key, value := range first[at] {
				require.Equal(t, value, state[key], "partition %d on %s, key %x", p.ID, r.Server, key)
			}
		}
		all = all && len(first) == 1
	}
	return all
}

// statuses asks all replicas, and reports whether those of each partition are at the same position with no
// undecided commands.
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
			assert.NoError(t, err) // not in the goroutine of the test
			all = append(all, status)
			first := &all[len(all)-1-i]
			alike = alike && status.Applied == first.Applied && status.Undecided == 0
		}
	}
	return all, alike
}

// readState reads the state of a replica on disk, and its position in the order of its partition.
func readState(t *testing.T, dir string) (at multicast.Position, state map[string]string) {
	t.Helper()
	store, err := kv.Open(dir, kv.Options{})
	require.NoError(t, err)
	defer store.Close()
	at, _, err = replica.Positions(store)
	require.NoError(t, err)
	state = map[string]string{}
	for key, value := range store.Scan(nil, nil) {
		state[string(key)] = string(value)
	}
	require.NoError(t, store.Err())
	return at, state
}
