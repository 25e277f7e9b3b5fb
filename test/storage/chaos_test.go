package storage

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/pkg/multicast"
)

var (
	roundsFlag = flag.Int("storage.rounds", 3, "how many rounds of faults")
	seedFlag   = flag.Uint64("storage.seed", 0, "of the faults; 0: a new one")
)

// Numbers of servers of the region at the start, and of clients.
const (
	servers = 6
	clients = 4
)

// TestRegionOfProcesses causes faults of two servers at a time, round after round, under load.
func TestRegionOfProcesses(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay the faults: -storage.seed=%d -storage.rounds=%d", seed, *roundsFlag)
	r := newServers(t, seed, servers)
	r.mountDisk(t, 1)
	for round := range *roundsFlag {
		r.round(t, round)
	}
	r.checkDisks(t)
	t.Logf("%d puts acknowledged, %d not, %d gets", r.puts, r.refused, r.gets)
	require.Greater(t, r.puts, 100)
}

// round runs clients while two servers have a fault each. In every other round one server joins and one
// leaves.
func (r *regionServers) round(t *testing.T, round int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stores := r.stores(t)
	var working sync.WaitGroup
	wrong := make(chan error, clients)
	for c := range clients {
		working.Go(func() { wrong <- r.load(ctx, t, uint64(1+round*clients+c), stores) })
	}
	pauseBriefly(t)
	victims := r.random.Perm(len(r.members.Servers))[:2]
	var heal []func()
	for _, v := range victims {
		heal = append(heal, r.fault(t, r.members.Servers[v].ID))
	}
	if round%2 == 1 {
		joined := r.add()
		r.tell(t)
		r.start(t, joined)
	}
	pauseBriefly(t)
	for _, end := range heal {
		end()
	}
	var leaves multicast.ProcessID
	if round%2 == 1 {
		leaves = r.leave(t)
	}
	pauseBriefly(t)
	stop()
	working.Wait()
	for range clients {
		require.NoError(t, <-wrong)
	}
	if leaves != 0 {
		r.awaitLeft(t, leaves)
	}
	r.collect(t)
	r.awaitWhole(t)
	r.checkAll(t)
}

// pauseBriefly lets the load continue for a while, so that faults happen during requests. It does not wait
// for any condition.
func pauseBriefly(t *testing.T) {
	timer := time.NewTimer(1500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// fault causes a fault of a server and returns the function that ends it.
func (r *regionServers) fault(t *testing.T, id multicast.ProcessID) (end func()) {
	p := r.running[id]
	restart := func() { r.start(t, id) }
	if id == r.small && r.random.IntN(2) == 0 {
		t.Logf("the disk of server %d is full", id)
		return r.fillDisk(t)
	}
	switch kind := r.random.IntN(6); kind {
	case 0:
		t.Logf("server %d is killed", id)
		p.kill(t)
		return restart
	case 1:
		t.Logf("server %d loses its disk", id)
		p.kill(t)
		require.NoError(t, os.RemoveAll(filepath.Join(r.dirOf(id), "blocks")))
		return restart
	case 2, 3:
		t.Logf("server %d is killed, and bits are flipped in its index (%v) or segments", id, kind == 3)
		p.kill(t)
		r.flip(t, id, kind == 3)
		return restart
	case 4:
		t.Logf("bits are flipped in the segments of server %d while it runs", id)
		r.flip(t, id, false)
		return func() {}
	default:
		t.Logf("server %d hangs", id)
		p.signal(t, syscall.SIGSTOP)
		return func() { p.signal(t, syscall.SIGCONT) }
	}
}

// flip inverts bits of the files of a server.
func (r *regionServers) flip(t *testing.T, id multicast.ProcessID, index bool) {
	for _, path := range diskFiles(t, r.dirOf(id), index) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		for range 3 {
			if info.Size() == 0 {
				continue
			}
			at, b := r.random.Int64N(info.Size()), [1]byte{}
			_, err := f.ReadAt(b[:], at)
			require.NoError(t, err)
			b[0] ^= 1 << r.random.IntN(8)
			_, err = f.WriteAt(b[:], at)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
}

// leave makes the oldest server leave.
func (r *regionServers) leave(t *testing.T) multicast.ProcessID {
	r.members.Servers = slices.Clone(r.members.Servers)
	r.members.Servers[1].Leaving = true
	leaves := r.members.Servers[1].ID
	t.Logf("server %d leaves", leaves)
	r.tell(t)
	return leaves
}

// awaitLeft waits until a leaving server has no blocks, and removes it.
func (r *regionServers) awaitLeft(t *testing.T, id multicast.ProcessID) {
	require.Eventually(t, func() bool {
		for _, s := range r.members.Servers {
			status, err := r.admin.Status(t.Context(), s.ID)
			if err != nil || status.Members.Version != r.members.Version || s.ID == id && !status.Drained {
				return false
			}
		}
		return true
	}, 2*time.Minute, 200*time.Millisecond, "server %d does not get rid of its blocks", id)
	p := r.running[id]
	delete(r.running, id)
	var stay = r.members.Servers[:0:0]
	for _, s := range r.members.Servers {
		if s.ID != id {
			stay = append(stay, s)
		}
	}
	r.members.Servers = stay
	r.tell(t)
	p.stop(t)
}

// diskSize is the size of the disk that is filled, in bytes.
const diskSize = 2 << 30

// mountDisk gives a server its own disk, which can be filled, if this user may mount one.
func (r *regionServers) mountDisk(t *testing.T, id multicast.ProcessID) {
	r.running[id].kill(t)
	dir := r.dirOf(id)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", diskSize)); err != nil {
		t.Logf("no disk becomes full: mounting a tmpfs takes root: %v", err)
	} else {
		r.small = id
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	}
	r.start(t, id)
}

// fillDisk fills the disk of mountDisk, and returns the function that frees the space.
func (r *regionServers) fillDisk(t *testing.T) (end func()) {
	path := filepath.Join(r.dirOf(r.small), "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	for size := int64(diskSize); size >= 4096; { // smaller and smaller pieces, until none fits
		info, err := f.Stat()
		require.NoError(t, err)
		if unix.Fallocate(int(f.Fd()), 0, info.Size(), size) != nil {
			size /= 2
		}
	}
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(path)) }
}
