package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// The test runs replicas of two partitions with clients that append to a file and read it. The file is the
// history: it must contain each acknowledged append once, in the order of each client. The result of each
// read must be a prefix of the file (all see one order), and must contain all appends that the reader knew of
// (causality).
func TestReplicas(t *testing.T) {
	seeds(t, 150, func(seed uint64) error { return replicaRun(seed).judge() })
}

// stored is the state that survives a crash of a replica: the store as the last commit left it, or an earlier
// one since the last sync.
type stored struct {
	keys      *kv.Store // of the running replica, with the writes that are not committed
	committed *kv.View  // nil: nothing is
	saved     *kv.View
	snaps     []storeSnapshot // of runs with losses of power: the last synced one, and some after it
}

// lossyKeys is the store of a running replica. It is committed at random moments.
type lossyKeys struct {
	*kv.Store
	disk *stored
	rng  *rand.Rand
}

func (k lossyKeys) Pending() int {
	if k.rng.IntN(8) == 0 {
		return math.MaxInt
	}
	return k.Store.Pending()
}

func (k lossyKeys) Commit(sync bool) error {
	err := k.Store.Commit(sync)
	if err == nil {
		err = k.keep(sync)
	}
	return err
}

// Replace implements replica.Keys.
func (k lossyKeys) Replace(fill kv.Fill) error {
	err := k.Store.Replace(fill)
	if err == nil {
		err = k.keep(true)
	}
	return err
}

// keep records the committed entries, which survive the end of the process.
func (k lossyKeys) keep(sync bool) (err error) {
	k.disk.committed, err = k.View()
	if err == nil {
		if sync || k.rng.IntN(4) == 0 {
			k.disk.saved = k.disk.committed
		}
	}
	return err
}

// restore replaces a store by a snapshot.
func restore(keys *kv.Store, snapshot []byte) error {
	return keys.Replace(func(set func(key, value []byte) error) error {
		return meta.ReadSnapshot(bytes.NewReader(snapshot), set)
	})
}

// replicas is one run.
type replicas struct {
	net     *Network
	groups  []multicast.Group
	disks   map[multicast.ProcessID]*stored
	clients []*simClient
	errs    []error
}

func replicaRun(seed uint64) *replicas {
	cfg := Default()
	cfg.Seed = seed
	cfg.Groups = []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1, 2, 3}}, {ID: 1, Members: []multicast.ProcessID{4, 5, 6}}}
	cfg.LatencyMax, cfg.Jitter, cfg.DiskMax, cfg.Skew = 30*time.Millisecond, 5*time.Millisecond, 5*time.Millisecond, time.Second
	cfg.Faults = Faults{
		Every: 300 * time.Millisecond, Longest: 200 * time.Millisecond,
		Pause: 2, Stall: 2, Reset: 1, SlowDisk: 1, Jump: 1, Crash: 2, CrashAll: 1, Cut: 1, Lag: 1, Chase: 1, LagMax: time.Second,
		LossPercent: 5, RepeatPercent: 5,
	}
	r := &replicas{groups: cfg.Groups, disks: map[multicast.ProcessID]*stored{}}
	net, err := New(cfg, r.boot)
	if err != nil {
		r.errs = append(r.errs, err)
		return r
	}
	r.net = net
	for i := range 4 {
		c := &simClient{run: r, id: i, acked: make([][]string, 2), read: make([]string, 2), session: uint64(100 + i), seq: make([]uint64, 2)}
		r.clients = append(r.clients, c)
		net.Schedule(time.Duration(i)*time.Millisecond, c.begin)
	}
	net.Run(8 * time.Second)
	net.Heal()
	net.Run(60 * time.Second)
	return r
}

// boot starts a replica with the state on its disk.
func (r *replicas) boot(self multicast.ProcessID, incarnation uint64, records [][]byte) (turn.Node, error) {
	disk, rng := r.disks[self], rand.New(rand.NewPCG(uint64(self), incarnation))
	if disk == nil {
		disk = &stored{keys: kv.NewMemory()}
		r.disks[self] = disk
	} else if err := disk.crash(rng); err != nil {
		return nil, err
	}
	keys := lossyKeys{Store: disk.keys, disk: disk, rng: rng}
	local, cross, err := replicaCores(primcast.Config{Self: self}, uint16(self-1)/3, r.groups, keys, records)
	if err != nil {
		return nil, err
	}
	partition := uint16(self-1) / 3
	machine, err := meta.New(keys, meta.Config{Partition: partition, Owner: worker})
	if err != nil {
		return nil, err
	}
	return replica.New(replica.Config{
		Partition: partition, Groups: r.groups, Self: self, Index: int(self-1) % 3, Incarnation: incarnation,
	}, local, cross, keys, machine)
}

// worker owns all files; some clients may act for worker only.
var worker = posix.Cred{UID: 1000, GID: 1000}

// bound are the clients with restricted certificates, by their sessions.
var bound = map[uint64]*ask.Client{
	102: {Name: "two", Authority: &posix.Authority{UIDs: []posix.IDs{{First: 1000, Last: 1000}}, GIDs: []posix.IDs{{First: 1000, Last: 1000}}}},
	103: {Name: "three", Authority: &posix.Authority{UIDs: []posix.IDs{{First: 5, Last: 1000}}, GIDs: []posix.IDs{{First: 1000, Last: 1000}}}},
}

// crash loses the writes that are not committed, and perhaps the unsynced commits.
func (d *stored) crash(rng *rand.Rand) error {
	if d.saved != nil && rng.IntN(2) == 0 {
		d.committed = d.saved
	}
	if d.committed == nil {
		d.keys = kv.NewMemory()
		return nil
	}
	return d.load(d.committed)
}

// load makes the store of the entries in state.
func (d *stored) load(state *kv.View) error {
	d.keys = kv.NewMemory()
	for key, value := range state.Scan(nil, nil) {
		d.keys.Set(key, value)
	}
	return errors.Join(state.Err(), d.keys.Commit(true))
}

// replicaCores makes the two cores of a replica: of the order of its partition, and of the one between
// partitions.
func replicaCores(
	cfg primcast.Config, partition uint16, groups []multicast.Group, keys meta.Keys, records [][]byte,
) (local, cross *primcast.Core, err error) {
	ownAt, crossAt, err := replica.Positions(keys)
	if err != nil {
		return nil, nil, err
	}
	cfg.SuspectAfter, cfg.CheckpointMin = 100*time.Millisecond, 4<<10
	founded := cfg.Founded
	cfg.Groups, cfg.Founded, cfg.Delivered = groups[partition:][:1], 0, multicast.UpTo(ownAt)
	if local, err = primcast.New(cfg); err != nil {
		return nil, nil, err
	}
	cfg.Groups, cfg.Founded, cfg.Delivered = groups, founded, crossAt
	cfg.Classes, cfg.HybridClock, cfg.Overlap = true, true, false
	if cross, err = primcast.New(cfg); err != nil {
		return nil, nil, err
	}
	for _, record := range records {
		if err := order.Replay(local, cross, record); err != nil {
			return nil, nil, err
		}
	}
	for _, core := range []*primcast.Core{local, cross} {
		if at, lacks := core.Lacks(); lacks {
			return nil, nil, fmt.Errorf("the store of process %d in partition %d lacks class %v up to %v, which the log has forgotten", cfg.Self, partition, at.Class, at.Position)
		}
	}
	return local, cross, nil
}

// simClient does one operation after the other, in both partitions, like internal/client.
type simClient struct {
	run     *replicas
	id      int
	session uint64
	vector  ask.Vector
	seq     []uint64 // of the last update, by partition
	log     [2]posix.Ino
	acked   [][]string  // appends that were acknowledged, by partition
	read    []string    // the result of the last read
	known   [2][]string // appends that it must see: its own, and those that other clients passed on
	left    int
}

func (c *simClient) begin() {
	c.left = 14
	c.open(0)
}

// open opens the session and the log of each partition, then the work begins.
func (c *simClient) open(p uint16) {
	if p == 2 {
		c.work()
		return
	}
	c.ask(p, ask.Request{Kind: ask.OpenSession, Session: c.session}, func(ask.Reply) {
		root := posix.MakeIno(p, 1)
		c.update(p, meta.Command{Op: meta.OpMknod, Cred: worker, Ino: root, Name: "log", Mode: posix.TypeRegular | 0o640}, func(m meta.Result) {
			c.log[p] = m.Attr.Ino
			c.open(p + 1)
		})
	})
}

// work appends, reads, or passes its knowledge on to another client.
func (c *simClient) work() {
	if c.left--; c.left < 0 {
		return
	}
	rng := c.run.net.Rand()
	p := uint16(rng.IntN(2))
	switch rng.IntN(6) {
	case 0:
		c.overstep(p)
	case 1, 2:
		token := fmt.Sprintf("%d.%d;", c.id, c.seq[p]+1)
		c.update(p, meta.Command{Op: meta.OpWrite, Ino: c.log[p], Flags: meta.Append, Data: []byte(token), Length: uint64(len(token))}, func(meta.Result) {
			c.acked[p] = append(c.acked[p], token)
			c.known[p] = append(c.known[p], token)
			c.work()
		})
	case 3, 4:
		c.look(p)
	default: // a message to another client: it must see what this one has seen
		other := c.run.clients[rng.IntN(len(c.run.clients))]
		other.vector = other.vector.Merge(c.vector)
		for q := range c.known {
			other.known[q] = append(other.known[q], c.known[q]...)
			if len(c.read[q]) > len(other.read[q]) {
				other.read[q] = c.read[q]
			}
		}
		c.run.net.Schedule(c.run.net.Now()+time.Millisecond, c.work)
	}
}

// overstep sends requests that a bound client is not allowed to make: replicas refuse them.
func (c *simClient) overstep(p uint16) {
	want := posix.OK
	if bound[c.session] != nil {
		want = posix.EPERM
	}
	c.command(p, meta.Command{Op: meta.OpSetAttr, Ino: c.log[p], Set: meta.SetMode, Attr: posix.Attr{Mode: 0o640}}, want, func(meta.Result) { c.work() })
}

// look reads the log at some replica and checks it.
func (c *simClient) look(p uint16) {
	known, before := slices.Clone(c.known[p]), c.read[p]
	command := meta.Command{Op: meta.OpExtents, Ino: c.log[p], Length: 1 << 20}
	asked := c.vector.Of(p)
	c.ask(p, ask.Request{Kind: ask.Query, Session: c.session, Command: command.Append(nil)}, func(reply ask.Reply) {
		m, err := meta.DecodeResult(reply.Result)
		if err != nil || m.Code != posix.OK || reply.Vector.Of(p).Count < asked.Count {
			c.fail("reads partition %d at %v, asked for %v: %v %v", p, reply.Vector.Of(p), asked, m.Code, err)
			return
		}
		text := contents(m)
		if !strings.HasPrefix(text, before) {
			c.fail("read %q before and now %q", before, text)
		}
		for _, token := range known {
			if !strings.Contains(";"+text, ";"+token) {
				c.fail("does not see %q in %q", token, text)
			}
		}
		if len(text) > len(c.read[p]) {
			c.read[p] = text
		}
		c.work()
	})
}

func contents(m meta.Result) string {
	var b strings.Builder
	for _, e := range m.Extents {
		b.Write(e.Data)
	}
	return b.String()
}

func (c *simClient) update(p uint16, command meta.Command, then func(meta.Result)) {
	c.command(p, command, posix.OK, then)
}

// command sends an update under the next number until it is answered, and checks the code of the answer.
func (c *simClient) command(p uint16, command meta.Command, want posix.Code, then func(meta.Result)) {
	c.seq[p]++
	q := ask.Request{Kind: ask.Update, Session: c.session, Seq: c.seq[p], Done: c.seq[p] - 1, Command: command.Append(nil)}
	c.ask(p, q, func(reply ask.Reply) {
		m, err := meta.DecodeResult(reply.Result)
		if err != nil || m.Code != want {
			c.fail("update %d of partition %d: %v %v", q.Seq, p, m.Code, err)
			return
		}
		then(m)
	})
}

// ask sends a request to a random replica, and after a timeout to another one, until one answers.
func (c *simClient) ask(p uint16, q ask.Request, then func(ask.Reply)) {
	q.Vector = slices.Clone(c.vector)
	to := c.run.groups[p].Members[c.run.net.Rand().IntN(3)]
	c.run.net.Call(to, turn.Call{Data: q.Append(nil), From: bound[q.Session]}, 400*time.Millisecond, func(b []byte, ok bool) {
		if !ok {
			c.ask(p, q, then)
			return
		}
		reply, err := ask.DecodeReply(b)
		if err != nil || reply.Status != ask.Answered {
			c.fail("request %d of partition %d: status %d %s %v", q.Seq, p, reply.Status, reply.Result, err)
			return
		}
		c.vector = c.vector.Merge(reply.Vector)
		then(reply)
	})
}

func (c *simClient) fail(format string, args ...any) {
	c.run.errs = append(c.run.errs, fmt.Errorf("client %d: %s", c.id, fmt.Sprintf(format, args...)))
}

// judge compares the final state with the observations of all clients.
func (r *replicas) judge() error {
	if r.net == nil || r.net.Err() != nil || len(r.errs) > 0 {
		return errors.Join(append(r.errs, r.netErr())...)
	}
	for p, group := range r.groups {
		first := dump(r.disks[group.Members[0]].keys)
		for _, member := range group.Members[1:] {
			for i, entry := range dump(r.disks[member].keys) {
				if i >= len(first) || entry != first[i] {
					return fmt.Errorf("partition %d: replicas %d and %d differ at the end: %x", p, group.Members[0], member, entry)
				}
			}
		}
		if bad := meta.Check(r.disks[group.Members[0]].keys); len(bad) > 0 {
			return fmt.Errorf("partition %d: %v", p, bad)
		}
		if err := r.history(uint16(p)); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

func (r *replicas) netErr() error {
	if r.net == nil {
		return nil
	}
	return r.net.Err()
}

// history checks the log of a partition: liveness, exactly-once execution, the order of each client, and that
// all reads agree with one order.
func (r *replicas) history(p uint16) error {
	keys := r.disks[r.groups[p].Members[0]].keys
	machine, err := meta.New(keys, meta.Config{Partition: p})
	if err != nil {
		return err
	}
	m := machine.Query(&meta.Command{Op: meta.OpExtents, Ino: r.clients[0].log[p], Length: 1 << 20})
	text := contents(m)
	for _, c := range r.clients {
		if c.left >= 0 {
			return fmt.Errorf("client %d still waits, with %d operations left", c.id, c.left)
		}
		var own []string
		for token := range strings.SplitAfterSeq(text, ";") {
			if strings.HasPrefix(token, fmt.Sprintf("%d.", c.id)) {
				own = append(own, token)
			}
		}
		if !slices.Equal(own, c.acked[p]) {
			return fmt.Errorf("client %d was told that %q were appended, the log has %q", c.id, c.acked[p], own)
		}
		if !strings.HasPrefix(text, c.read[p]) {
			return fmt.Errorf("client %d read %q, the log is %q", c.id, c.read[p], text)
		}
	}
	return nil
}

// dump commits first: the stored digest is that of the last commit.
func dump(keys *kv.Store) []string {
	if err := keys.Commit(false); err != nil {
		panic(err)
	}
	var all []string
	for k, v := range keys.Scan(nil, nil) {
		all = append(all, string(k)+"="+string(v))
	}
	return all
}
