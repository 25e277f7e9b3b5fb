package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
)

// quiet returns a logger of errors only.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// world is a cluster on loopback, with a real etcd.
type world struct {
	t       *testing.T
	etcd    *registrytest.Etcd
	file    File
	running map[string]*process
}

// process is a server that runs in this process.
type process struct {
	*Server
	stop context.CancelFunc
	done chan error
}

// newWorld makes the file of a cluster with the given number of datacenters in each region, and one server in
// each.
func newWorld(t *testing.T, regions []topology.Region, datacenters int) *world {
	w := &world{t: t, etcd: registrytest.Start(t), file: DefaultFile(), running: map[string]*process{}}
	w.file.Spec = topology.Spec{Name: "test", Regions: regions, Datacenters: datacenters, Replicas: min(3, datacenters|1), Copies: min(2, datacenters)}
	w.file.Addresses = map[string]string{}
	for _, r := range regions {
		for d := range datacenters {
			w.file.Addresses[fmt.Sprintf("%s%c", r, 'a'+d)] = registrytest.FreeAddress(t)
		}
	}
	w.file.Registry.Endpoints = []string{w.etcd.Endpoint()}
	w.file.Registry.Timeout, w.file.Registry.Lease = time.Second, 2*time.Second
	w.file.DataDir = t.TempDir()
	require.NoError(t, w.file.Validate())
	t.Cleanup(func() {
		for name := range w.running {
			w.halt(name)
		}
	})
	return w
}

// certify makes a CA and certificates for the servers, an admin and a client.
func (w *world) certify() {
	ca, err := identity.NewCA(w.file.Name, identity.CAValidity)
	require.NoError(w.t, err)
	w.file.Certificates = w.t.TempDir()
	require.NoError(w.t, identity.SaveCA(w.file.Certificates, ca, false))
	issue := func(r identity.Request) {
		pair, err := ca.Issue(r)
		require.NoError(w.t, err)
		require.NoError(w.t, pair.Save(identity.FilesIn(w.file.Certificates, r.Role, r.Name), false))
	}
	for name := range w.file.Addresses {
		issue(identity.Request{Role: identity.Server, Name: name})
	}
	issue(identity.Request{Role: identity.Admin, Name: "op"})
	issue(identity.Request{Role: identity.Client, Name: "laptop", Authority: posix.Everybody()})
}

// tryStart starts a server.
func (w *world) tryStart(ctx context.Context, name string, file File) (*process, error) {
	s, err := StartServer(ctx, ServerConfig{File: &file, Name: name, Tuning: server.Tuning{Healing: blocktest.Impatient()}, Device: w.rdmaDevice(name), Build: "test", Logger: quiet()})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{Server: s, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- s.Run(ctx) }()
	return p, nil
}

func (w *world) start(names ...string) {
	w.t.Helper()
	for _, name := range names {
		p, err := w.tryStart(w.t.Context(), name, w.file)
		require.NoError(w.t, err)
		w.running[name] = p
	}
}

// startAll starts all servers of the file, at the same time.
func (w *world) startAll() {
	w.t.Helper()
	type started struct {
		name string
		p    *process
		err  error
	}
	all := make(chan started)
	for name := range w.file.Addresses {
		go func() {
			p, err := w.tryStart(w.t.Context(), name, w.file)
			all <- started{name, p, err}
		}()
	}
	for range w.file.Addresses {
		s := <-all
		require.NoError(w.t, s.err)
		w.running[s.name] = s.p
	}
}

// halt stops a server cleanly.
func (w *world) halt(name string) {
	p := w.running[name]
	delete(w.running, name)
	p.stop()
	require.NoError(w.t, <-p.done)
}

// access connects as a process, or without certificates as any caller.
func (w *world) access(role identity.Role, name string) *Access {
	w.t.Helper()
	cfg := AccessConfig{Timeout: 10 * time.Second, Logger: quiet()}
	for _, address := range w.file.Addresses {
		cfg.Servers = append(cfg.Servers, address)
	}
	if w.file.Certificates != "" {
		cfg.Certificates = identity.FilesIn(w.file.Certificates, role, name)
	}
	a, err := Connect(w.t.Context(), cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, a.Close()) })
	return a
}

func (w *world) operator() *Access { return w.access(identity.Admin, "op") }

// client makes a client in the first region.
func (w *world) client(a *Access) *attach.Client {
	w.t.Helper()
	c, err := a.Client(ClientConfig{Region: w.file.Regions[0], CacheBytes: 1 << 20, Timeout: 20 * time.Second})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, c.Close()) })
	return c
}

// dir returns the data directory of a server.
func (w *world) dir(name string) string { return filepath.Join(w.file.DataDir, name) }

// contents are the written files with their content, by name.
type contents map[string]string

func (f contents) write(t *testing.T, c *attach.Client, dir posix.Ino, count int) {
	t.Helper()
	for range count {
		name := fmt.Sprintf("file-%d", len(f))
		b := make([]byte, 10+rand.IntN(50_000))
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		a, err := c.Create(t.Context(), posix.Cred{}, client.Name{Dir: dir, Name: name}, 0o644, 0)
		require.NoError(t, err)
		_, err = c.Write(t.Context(), posix.Cred{}, client.Write{Ino: a.Ino, Data: b})
		require.NoError(t, err)
		c.Release(a.Ino)
		f[name] = string(b)
	}
}

func (f contents) check(t *testing.T, c *attach.Client, dir posix.Ino) {
	t.Helper()
	for name, want := range f {
		a, err := c.Lookup(t.Context(), dir, name)
		require.NoError(t, err, name)
		b := make([]byte, a.Size+1)
		n, err := c.Read(t.Context(), a.Ino, b, 0)
		require.NoError(t, err, name)
		require.True(t, want == string(b[:n]), name)
	}
}
