package dev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

func testConfig(dir string) Config {
	return Config{
		Spec: topology.DefaultSpec(), Dir: dir, Durability: wal.OS, Timeout: 20 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// start runs a cluster until the end of the test.
func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// in makes a client in a region until the end of the test.
func in(t *testing.T, c *Cluster, region topology.Region) *attach.Client {
	t.Helper()
	cl, err := c.Client(region)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cl.Close()) })
	return cl
}

// mountIn mounts the tree until the end of the test.
func mountIn(t *testing.T, c *Cluster, region topology.Region) string {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no /dev/fuse here")
	}
	dir := t.TempDir()
	cl := in(t, c, region)
	m, err := mount.New(mount.Config{Client: cl.Client, Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	return dir
}

// raceMounts returns the paths of one region's local partition on mounts in two regions. fresh makes another
// mount with empty kernel caches.
func raceMounts(t *testing.T) (a, b string, fresh func() string) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions = cfg.Spec.Regions[:2]
	c := start(t, cfg)
	local := string(cfg.Spec.Regions[0])
	at := func(i int) string { return filepath.Join(mountIn(t, c, cfg.Spec.Regions[i]), local) }
	return at(0), at(1), func() string { return at(0) }
}

func write(t *testing.T, c *attach.Client, dir posix.Ino, name, content string) posix.Attr {
	t.Helper()
	ctx := context.Background()
	a, err := c.Create(ctx, posix.Cred{}, client.Name{Dir: dir, Name: name}, 0o644, 0)
	require.NoError(t, err)
	defer c.Release(a.Ino)
	w, err := c.Write(ctx, posix.Cred{}, client.Write{Ino: a.Ino, Data: []byte(content)})
	require.NoError(t, err)
	return w.Attr
}

func read(t *testing.T, c *attach.Client, dir posix.Ino, name string) string {
	t.Helper()
	a, err := c.Lookup(context.Background(), dir, name)
	require.NoError(t, err, name)
	b := make([]byte, a.Size+1)
	n, err := c.Read(context.Background(), a.Ino, b, 0)
	require.NoError(t, err)
	return string(b[:n])
}

// Acknowledged updates are there after a restart, with both transports.
func TestRestart(t *testing.T) {
	for _, grpc := range []bool{false, true} {
		cfg := testConfig(t.TempDir())
		cfg.GRPC = grpc
		for run := range 3 {
			c, err := Start(t.Context(), cfg)
			require.NoError(t, err)
			cl, err := c.Client("us-east-1")
			require.NoError(t, err)
			for _, p := range c.Plan.Partitions {
				for was := range run {
					require.Equal(t, fmt.Sprint(was, p.Path), read(t, cl, p.Root(), fmt.Sprint("f", was)))
				}
				write(t, cl, p.Root(), fmt.Sprint("f", run), fmt.Sprint(run, p.Path))
			}
			require.NoError(t, cl.Close())
			require.NoError(t, c.Close())
		}
	}
}

// After a run in memory, the next run with disks does not treat any disk as lost.
func TestDiskAfterMemory(t *testing.T) {
	cfg := testConfig(t.TempDir())
	for _, cfg.Durability = range []wal.Durability{wal.Memory, wal.OS, wal.OS} {
		c, err := Start(t.Context(), cfg)
		require.NoError(t, err)
		require.Empty(t, c.Plan.Replaced)
		require.NoError(t, c.Close())
	}
}

// A client that moves to another replica reads its own writes (T 3.4.1), although that replica delivers them
// later: the regions are tens of milliseconds apart.
func TestReadYourWritesAcrossReplicas(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.WAN = true
	c := start(t, cfg)
	for i := range 5 {
		writer, reader := in(t, c, "us-west-2"), in(t, c, "eu-west-1")
		name := fmt.Sprint("own-", i)
		write(t, writer, posix.Root, name, name)
		reader.Observe(writer.Proofs()) // the same user, now with the replica in Ireland
		require.Equal(t, name, read(t, reader, posix.Root, name))
	}
}

// A server that leads partitions stops: acknowledged updates persist, and updates continue. The server starts
// again and catches up. Then another server stops, so that there is a majority only with the first one.
func TestPrimaryStops(t *testing.T) {
	for _, grpc := range []bool{false, true} {
		cfg := testConfig(t.TempDir())
		cfg.GRPC = grpc
		c := start(t, cfg)
		cl := in(t, c, "us-east-1")
		leads := func(p *topology.Partition) string { return p.Replicas[0].Server }
		p := c.Plan.Partitions[0]
		write(t, cl, p.Root(), "before", "1")
		c.stopServers(leads(&p))
		begin := time.Now()
		write(t, cl, p.Root(), "meanwhile", "2")
		t.Logf("grpc %v: an update after the primary had stopped took %v", grpc, time.Since(begin))
		require.NoError(t, c.startServer(t.Context(), leads(&p)))
		write(t, cl, p.Root(), "after", "3")
		c.stopServers(p.Replicas[1].Server)
		write(t, cl, p.Root(), "at last", "4")
		for name, content := range map[string]string{"before": "1", "meanwhile": "2", "after": "3", "at last": "4"} {
			require.Equal(t, content, read(t, cl, p.Root(), name))
		}
	}
}

// A client that receives a message about a change, with the vector of the sender, sees the change. This also
// holds through a third client, and in a partition that neither has used before.
func TestMessageThenLook(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.WAN = true
	c := start(t, cfg)
	a, b, d := in(t, c, "us-west-2"), in(t, c, "eu-west-1"), in(t, c, "us-east-1")
	for i := range 4 {
		question, answer := fmt.Sprint("question-", i), fmt.Sprint("answer-", i)
		write(t, a, posix.Root, question, question)
		b.Observe(a.Proofs())
		require.Equal(t, question, read(t, b, posix.Root, question))
		write(t, b, c.Plan.Partitions[3].Root(), answer, answer)
		d.Observe(b.Proofs())
		require.Equal(t, answer, read(t, d, c.Plan.Partitions[3].Root(), answer))
		require.Equal(t, question, read(t, d, posix.Root, question), "who sees the answer sees the question")
	}
}

func TestDataDirectoryOfAnotherCluster(t *testing.T) {
	cfg := testConfig(t.TempDir())
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	_, err = Start(t.Context(), cfg)
	require.ErrorContains(t, err, "in use by another globalfs")
	require.NoError(t, c.Close())
	cfg.Spec.Replicas = 1
	_, err = Start(t.Context(), cfg)
	require.ErrorContains(t, err, "made for another cluster")
}
