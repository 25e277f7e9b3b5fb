//go:build flood

package cluster

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Phases of the measurement. Phases with and without the attack take turns, so that both have the same load
// of the machine.
const floodPhase = 15 * time.Second

var (
	floodPhases  = flag.Int("flood.phases", 8, "phases of each kind; 8 are two minutes of attack")
	floodMount   = flag.String("flood.mount", "", "a flag of the measured mount, such as --delegate=none")
	floodHostile = flag.String("flood.hostile", "--uids 1000 --gids 1000", "flags of the certificate of the hostile machine; none: all users but root")
	floodProfile = flag.String("flood.profile", "", "directory for CPU profiles of the servers under attack")
)

// TestAFlood measures the slowdown of a mount by a hostile machine with a certificate for one user, or with
// that of -flood.hostile, for two minutes. 'make flood' runs it: its results are not meaningful on a busy
// machine.
func TestAFlood(t *testing.T) {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2, Profiled: *floodProfile != ""})
	_, err := c.Run(t.Context(), append([]string{"certs", "client", "bound", "--dir", c.Certs()}, strings.Fields(*floodHostile)...)...)
	require.NoError(t, err)
	west := filepath.Join(c.mountWith(t, c.only(t, "client-mount"), strings.Fields(*floodMount)...), "west")
	require.NoError(t, os.Mkdir(filepath.Join(west, "open"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(west, "open"), 0o777))
	mine := filepath.Join(west, "mine")
	require.NoError(t, os.Mkdir(mine, 0o777))
	require.NoError(t, os.Chmod(mine, 0o777|os.ModeSticky))

	var quiet, attacked []time.Duration
	_ = work(t, mine, floodPhase/3)
	// The hostile machine stands still in the quiet phases. One that starts again would have to wait until
	// its many sessions have ended.
	attacker := exec.CommandContext(t.Context(), "nice", "-n", "19", os.Args[0], "-test.run=^TestFloodAttacker$", "-test.v")
	attacker.Env = append(os.Environ(), "FLOOD_CERTS="+c.Certs(), "FLOOD_SERVER="+c.Address("westa"))
	out := &strings.Builder{}
	attacker.Stdout, attacker.Stderr = out, out
	for phase := range *floodPhases {
		quiet = append(quiet, work(t, mine, floodPhase)...)
		if phase == 0 {
			require.NoError(t, attacker.Start())
		} else {
			require.NoError(t, attacker.Process.Signal(syscall.SIGCONT))
		}
		time.Sleep(time.Second)
		profiled, before := profileServers(t, c), holdingOf(t, c, mine)
		took := work(t, mine, floodPhase)
		attacked = append(attacked, took...)
		profiled()
		after := holdingOf(t, c, mine)
		fmt.Printf("attacked for %v: %d files made and removed, %d changes in the log of the mount, %d recalls\n",
			floodPhase, len(took), after.Logged-before.Logged, after.Recalls-before.Recalls)
		require.NoError(t, attacker.Process.Signal(syscall.SIGSTOP), "it has ended: %s", out)
	}
	require.NoError(t, attacker.Process.Kill())
	_ = attacker.Wait()
	t.Log(strings.TrimSpace(out.String()))
	require.NotContains(t, out.String(), "FAIL")
	for _, of := range [][]time.Duration{quiet, attacked} {
		slices.Sort(of)
	}
	at := func(of []time.Duration, share float64) time.Duration { return of[int(share*float64(len(of)-1))] }
	for _, share := range []float64{0.5, 0.9, 0.99} {
		q, a := at(quiet, share), at(attacked, share)
		fmt.Printf("p%.0f of create, write 1 KB, read, unlink: quiet %v, attacked %v: %.2fx\n", 100*share, q, a, float64(a)/float64(q))
	}
	require.Less(t, at(attacked, 0.5), 2*at(quiet, 0.5))
	require.Less(t, at(attacked, 0.9), 2*at(quiet, 0.9))
}

// holdingOf returns the counts of the mount of a directory; zero with --delegate=none.
func holdingOf(t *testing.T, c *Cluster, dir string) client.Holding {
	out, err := c.Run(t.Context(), "info", "-o", "json", dir)
	require.NoError(t, err)
	var all []mount.Info
	require.NoError(t, json.Unmarshal([]byte(out), &all), out)
	if all[0].Holding == nil {
		return client.Holding{}
	}
	return *all[0].Holding
}

// profileServers writes CPU profiles of the servers, with -flood.profile. The caller calls wait at the end.
func profileServers(t *testing.T, c *Cluster) (wait func()) {
	var all sync.WaitGroup
	if *floodProfile != "" {
		for name, p := range c.Servers {
			all.Go(func() {
				file, err := os.Create(filepath.Join(*floodProfile, name+".pprof"))
				assert.NoError(t, err)
				assert.NoError(t, p.Profile(t.Context(), floodPhase-2*time.Second, file))
				assert.NoError(t, file.Close())
			})
		}
	}
	return all.Wait
}

// work makes, reads and removes files for a time, and returns the duration for each file.
func work(t *testing.T, dir string, during time.Duration) (took []time.Duration) {
	content := make([]byte, 1<<10)
	for end := time.Now().Add(during); time.Now().Before(end); {
		began, name := time.Now(), filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(name, content, 0o644))
		_, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.Remove(name))
		took = append(took, time.Since(began))
	}
	return took
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// flood is the hostile machine.
type flood struct {
	ctx    context.Context
	via    *transport.Client
	plan   *topology.Cluster
	client *attach.Client
	strict *attach.Client // its reads are linearizable
	dir    posix.Ino
	mine   posix.Ino // the directory in which the other mount works
	own    posix.Ino // a file of the hostile machine there
	done   [6]atomic.Int64
}

// TestFloodAttacker is the process of the hostile machine.
func TestFloodAttacker(t *testing.T) {
	if os.Getenv("FLOOD_CERTS") == "" {
		t.Skip("TestAFlood starts it")
	}
	files := identity.FilesIn(os.Getenv("FLOOD_CERTS"), identity.Client, "bound")
	a, err := daemon.Connect(t.Context(), daemon.AccessConfig{Servers: []string{os.Getenv("FLOOD_SERVER")}, Certificates: files, Timeout: time.Minute, Logger: quietLog()})
	require.NoError(t, err)
	credentials, err := identity.Load(files, quietLog())
	require.NoError(t, err)
	hosts := a.Cluster().Hosts()
	f := &flood{ctx: t.Context(), plan: a.Cluster(), via: transport.Dial(transport.Config{
		Credentials: credentials, Logger: quietLog(),
		Resolve: func(p multicast.ProcessID) (string, bool) {
			if s := hosts[p]; s != nil {
				return s.Address, true
			}
			return "", false
		},
	})}
	f.client, err = a.Client(daemon.ClientConfig{Region: "west", CacheBytes: 1 << 20, Timeout: time.Minute})
	require.NoError(t, err)
	f.strict, err = a.Client(daemon.ClientConfig{Region: "west", CacheBytes: 1 << 20, Timeout: time.Minute, Linearizable: true})
	require.NoError(t, err)
	root := f.plan.Partitions[1].Root()
	for name, ino := range map[string]*posix.Ino{"open": &f.dir, "mine": &f.mine} {
		found, err := f.client.Lookup(f.ctx, root, name)
		require.NoError(t, err)
		*ino = found.Ino
	}
	_, err = f.strict.Lookup(f.ctx, root, "mine")
	require.NoError(t, err)
	own, err := f.client.Create(f.ctx, user1000, client.Name{Dir: f.mine, Name: "hostile"}, 0o644, 0)
	require.NoError(t, err)
	f.own = own.Ino
	var all sync.WaitGroup
	for n, attack := range []func(){f.churn, f.ask, f.forge, f.put, f.sessions, f.recall} {
		for range []int{48, 32, 16, 4, 4, 8}[n] {
			all.Go(func() {
				for f.ctx.Err() == nil {
					attack()
					f.done[n].Add(1)
				}
			})
		}
	}
	for range 60 {
		time.Sleep(2 * time.Second)
		fmt.Printf("so far: %d files, %d queries, %d forged writes, %d blocks, %d sessions, %d recalling requests\n", f.done[0].Load(), f.done[1].Load(), f.done[2].Load(), f.done[3].Load(), f.done[4].Load(), f.done[5].Load())
	}
	all.Wait()
}

var user1000 = posix.Cred{UID: 1000, GID: 1000}

// churn makes and removes a file.
func (f *flood) churn() {
	name := client.Name{Dir: f.dir, Name: fmt.Sprint(rand.Uint64())}
	if a, err := f.client.Create(f.ctx, user1000, name, 0o644, 0); err == nil {
		_ = f.client.Unlink(f.ctx, user1000, name)
		f.client.Release(a.Ino)
	}
}

// call sends a request to a random replica of the partition that the other mount uses.
func (f *flood) call(q *ask.Request) {
	ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second)
	defer cancel()
	q.Ticketed = true // otherwise replicas refuse it at once
	replicas := f.plan.Partitions[1].Replicas
	_, _ = f.via.Call(ctx, replicas[rand.IntN(len(replicas))].Process, q.Append(nil))
}

func (f *flood) ask() {
	c := meta.Command{Op: meta.OpReadDir, Ino: f.plan.Partitions[1].Root(), Length: 1 << 10}
	f.call(&ask.Request{Kind: ask.Query, Command: c.Append(nil)})
}

// forge writes blocks that are not stored.
func (f *flood) forge() {
	session := rand.Uint64()>>16 | 1
	c := meta.Command{Op: meta.OpWrite, Cred: user1000, Ino: f.plan.Partitions[1].Root()}
	for i := range uint64(meta.MaxBlocks) {
		c.Blocks = append(c.Blocks, meta.Block{ID: posix.MakeBlockID(1, session, 1<<24+i), Length: 1})
		c.Length++
	}
	f.call(&ask.Request{Kind: ask.Update, Session: session, Seq: 1, Command: c.Append(nil)})
}

// put stores blocks, at most a thousand different ones, so that the disk does not fill up.
func (f *flood) put() {
	id := posix.MakeBlockID(1, 77, 1<<24+rand.Uint64N(1000))
	store, err := f.client.BlockStore(1)
	if err == nil {
		ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second)
		defer cancel()
		_ = store.Put(ctx, block.New(id, make([]byte, 256<<10)))
	}
}

// recall makes requests that the permissions allow, and that recall the directory of the other mount: it
// looks at the directory with linearizable reads, and changes its own file there.
func (f *flood) recall() {
	_, _ = f.strict.GetAttr(f.ctx, f.mine)
	_, _, _ = f.strict.ReadDir(f.ctx, f.mine, 0, 10)
	_, _ = f.client.SetAttr(f.ctx, user1000, f.own, meta.SetMode, posix.Attr{Mode: posix.TypeRegular | 0o600})
}

func (f *flood) sessions() {
	session := rand.Uint64()>>16 | 1
	f.call(&ask.Request{Kind: ask.OpenSession, Session: session, Command: f.plan.Identity()})
	held := make([]posix.Ino, 1000)
	for i := range held {
		held[i] = posix.MakeIno(1, rand.Uint64()>>40)
	}
	f.call(&ask.Request{Kind: ask.RenewSession, Session: session, Held: held})
}
