package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// tree is one run.
type tree struct {
	treeSetup
	net     *Network
	work    int // operations of each client
	disks   map[multicast.ProcessID]*stored
	groups  []*treeGroup // by partition
	session uint64       // the last id
	stores  treeStores
	clients []*treeClient
	history history
	waits   map[incarnation]*waits
	digests treeDigests

	challenge  *meta.Command // the other half of a duel, for the next client
	challenger *treeClient

	syncs  map[multicast.ProcessID]int // of logs that do not sync each step
	cuts   treeCuts
	reach  treeReach
	growth growth
	errs   []error
	slow   []multicast.ProcessID // do nothing before the halt
}

// treeSetup is the differences between tests.
type treeSetup struct {
	linear  bool              // clients ask for linearizability
	lease   time.Duration     // of sessions; 0: so long that none ends
	retain  int               // bytes that cores keep for members that are away; 0: more than there are
	change  func(*Config)     // nil: the faults are those of treeConfig
	rage    time.Duration     // how long faults rage; 0: treeFaults
	losses  int               // how many disks are lost for ever
	alive   bool              // most of these replicas are not lost: they live, and are replaced
	blocks  bool              // files have blocks
	script  func(*treeClient) // the operations of client 0, alone; nil: clients work by treeOperations
	leases  bool              // clients cache names
	shards  bool              // partitions 1 and 2 are the shards of a region
	grow    bool              // a partition is added to them (tree_grow_test.go)
	hostile bool              // an intruder sends hostile requests
	backups int               // the number of backups
	holders *treeHolders      // clients hold directories (tree_delegations_test.go); nil: they do not
	power   bool              // partitions lose power: updates of one partition may be lost after their answers
	halt    time.Duration     // all processes stop then for ever; 0: they do not
	begin   [][]byte          // the first state of each partition; nil: a new one
	memory  *treeMemory       // the partitions' own orders are TRAM's (tree_memory_test.go); nil: PrimCast's
}

// The length of the phase of faults, and then the time limit of the clients.
const (
	treeFaults = 8 * time.Second
	treeFinish = 5 * time.Minute
)

func treeRun(seed uint64, setup treeSetup) *tree {
	r := &tree{
		treeSetup: setup, session: 99, disks: map[multicast.ProcessID]*stored{},
		history: newHistory(), cuts: treeCuts{}, reach: treeReach{}, stores: newTreeStores(), waits: map[incarnation]*waits{},
		syncs: map[multicast.ProcessID]int{}, digests: treeDigests{},
	}
	for i := range treeGroups {
		r.groups = append(r.groups, newTreeGroup(r, &treeGroups[i]))
	}
	if r.grow {
		r.groups = append(r.groups, newTreeGroup(r, &addedGroup))
	}
	if err := r.preload(); err != nil {
		r.fail("%w", err)
		return r
	}
	cfg := treeConfig(seed)
	cfg.Faults.Leads, cfg.Faults.Dark = r.leads, r.dark
	if r.change != nil {
		r.change(&cfg)
	}
	r.useMemory(&cfg)
	for i := range r.losses {
		cfg.Spares = append(cfg.Spares, multicast.ProcessID(10+i))
	}
	losses := len(cfg.Spares)
	if r.grow {
		cfg.Spares = append(cfg.Spares, addedGroup.Members...)
	}
	net, err := New(cfg, r.boot)
	if err != nil {
		r.fail("%w", err)
		return r
	}
	r.net = net
	spreadLatencies(net)
	r.work = 20 + net.Rand().IntN(30)
	for i := range 4 + net.Rand().IntN(2) {
		r.clients = append(r.clients, newTreeClient(r, i))
	}
	r.loseDisks(cfg.Spares[:losses])
	r.startGrowth()
	r.startBackups()
	if r.holders != nil && r.holders.bound {
		r.holders.recall(r)
	}
	if r.hostile {
		r.intrude()
	}
	if r.halt > 0 {
		r.stopAll()
		return r
	}
	net.Run(cmp.Or(r.rage, treeFaults))
	net.Heal()
	for net.Now() < treeFinish && net.Err() == nil && len(r.errs) == 0 && !r.finished() {
		net.Run(net.Now() + time.Second)
	}
	net.Run(net.Now() + 10*time.Second) // for the remaining messages of the replicas
	if r.retain > 0 {
		net.RestartAll() // transferred states survive
		net.Run(net.Now() + 10*time.Second)
	}
	return r
}

func (r *tree) fail(format string, args ...any) { r.errs = append(r.errs, fmt.Errorf(format, args...)) }

// finished reports whether all clients have done all their work, and all lost replicas are replaced.
func (r *tree) finished() bool {
	for _, g := range r.groups {
		if !g.complete() {
			return false
		}
	}
	if !r.grown() {
		return false
	}
	for _, c := range r.clients {
		if !c.finished {
			return false
		}
	}
	return true
}

func (r *tree) leads(p multicast.ProcessID) bool { return r.net.Node(p).(*treeNode).local.Leads() }

// treeMeta is the initial state of a partition: the root names the other two, which may be the shards of a
// region.
func (r *tree) treeMeta(partition uint16) meta.Config {
	cfg := meta.Config{Partition: partition}
	if r.shards && partition > 0 {
		cfg.Shards = []uint16{1, 2}
		if partition > 2 {
			cfg.Shards = grownShards
		}
	}
	if partition == 0 {
		cfg.Genesis = []meta.Birth{{Name: "p1", Ino: posix.MakeIno(1, 1)}, {Name: "p2", Ino: posix.MakeIno(2, 1)}}
	}
	return cfg
}

// boot starts a replica with the state on its disk.
func (r *tree) boot(self multicast.ProcessID, number uint64, records [][]byte) (turn.Node, error) {
	disk, rng := r.disks[self], rand.New(rand.NewPCG(uint64(self), number))
	if disk == nil {
		disk = &stored{keys: kv.NewMemory()}
		r.disks[self] = disk
	} else if err := disk.crash(rng); err != nil {
		return nil, err
	}
	group, index := r.seat(self)
	n := &treeNode{run: r, self: self, partition: group.partition(), incarnation: number, waits: newWaits()}
	r.waits[incarnation{self, number}] = n.waits
	records, err := r.endAdoption(self, disk, rng, records)
	if err != nil {
		return nil, err
	}
	n.keys = &observedKeys{lossyKeys: lossyKeys{Store: disk.keys, disk: disk, rng: rng}, node: n, blind: r.power || r.holders != nil}
	if n.machine, err = meta.New(n.keys, r.treeMeta(n.partition)); err != nil {
		return nil, err
	}
	cfg := primcast.Config{Self: self, Retain: r.retain, Overlap: number%3 != 0 && !r.power} // sometimes other than before
	if born := group.born.Members[index]; born != self {
		cfg.Replaces = born
	}
	groups, shards := r.growth.knownBy(self)
	cfg.Founded = len(treeGroups)
	if err := n.useCores(cfg, group, groups, records); err != nil {
		return nil, err
	}
	n.logEnd = logEnd(n.local)
	n.Replica, err = replica.New(replica.Config{
		Partition: n.partition, Groups: groups, Founded: len(treeGroups), Shards: shards,
		Self: self, Index: index, Incarnation: number, Sealer: vectorKeys, Lease: cmp.Or(r.lease, time.Hour), Cut: n.cut,
		DigestPeriod: treeDigestPeriod,
	}, n.local, n.cross, n.keys, n.machine)
	if err != nil {
		return nil, err
	}
	if err := n.verifyDigest(); err != nil {
		return nil, err
	}
	for _, replaced := range group.replaced {
		n.Replica.Replace(replaced)
	}
	return n, nil
}

// treeNode is a replica under observation.
type treeNode struct {
	*replica.Replica
	run         *tree
	self        multicast.ProcessID
	partition   uint16
	incarnation uint64
	waits       *waits
	keys        *observedKeys
	machine     *meta.Machine
	local       order.Core
	endpoint    *fabricsim.Endpoint // in the fabric; nil: there is none
	cross       *primcast.Core
	logEnd      LogEnd // after the last step

	behind   bool                  // it needs the state of another one
	donors   []multicast.ProcessID // that it will still ask; nil: it does not ask now
	patience time.Duration         // until it asks again
}

// count returns the number of commands of its partition that the replica has executed, the present one
// included.
func (n *treeNode) count() uint64 { return n.Replica.Vector().Of(n.partition).Count }

// Format numbers that the marks need.
const (
	sectionOfReplica = 4
	messageVote      = 1
	entryRequest     = 1
	entryRelay       = 32
	entryCommand     = 64
)

func (n *treeNode) Step(in *turn.Input, out *turn.Output) {
	n.waits.take(n, in)
	n.Replica.Step(in, out)
	if out.Sync {
		n.run.syncs[n.self]++
	}
	if len(out.Behind) > 0 && !n.behind {
		n.behind = true
		n.catchUp()
	}
	if out.Checkpoint {
		n.run.reach[checkpoints]++
	}
	if n.incarnation == 1 {
		return
	}
	for _, f := range out.Frames {
		for r := varint.NewReader(f.Data); r.Len() > 0 && r.Err() == nil; {
			kind, section := r.Uint8(), r.Bytes()
			if kind == sectionOfReplica && len(section) > 0 && section[0] == messageVote {
				n.run.reach[askedAgain]++
			}
		}
	}
}

func (n *treeNode) Apply(out *turn.Output) ([]turn.Call, error) {
	for i := range out.Deliveries {
		d := &out.Deliveries[i]
		n.run.wasWaitedFor(d)
		r := varint.NewReader(d.Payload)
		_ = r.Uint8()
		_ = r.Int()
		if len(d.Dest) == 1 && d.ID.Sender == n.self && r.Uint8() == entryRelay && !n.local.Leads() {
			n.run.reach[relayedByOther]++
		}
	}
	if out.Retired {
		n.run.retire(n.self)
	}
	replies, err := n.Replica.Apply(out)
	n.compareDigests()
	return replies, err
}
