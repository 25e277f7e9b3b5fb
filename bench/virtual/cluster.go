package virtual

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/globalfs/globalfs/bench/direct"
	"github.com/globalfs/globalfs/bench/heronfs"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// Carrier carries commands of several partitions between replicas.
type Carrier struct {
	Name  string
	Title string
	// core makes the core of a process.
	core func(self multicast.ProcessID, groups []multicast.Group, seed uint64) (order.Core, error)
	// class names the classes, as order.Classifier does.
	class func(dest []multicast.GroupID, id multicast.MessageID) multicast.Class
}

// Carriers returns the carriers to compare.
func Carriers() []Carrier {
	byDestination := func(dest []multicast.GroupID, _ multicast.MessageID) multicast.Class { return multicast.ClassOf(dest) }
	one := func([]multicast.GroupID, multicast.MessageID) multicast.Class { return "" }
	return []Carrier{
		{"classes", "PrimCast in classes", multicasts(true), byDestination},
		{"one-order", "PrimCast, one order for all", multicasts(false), one},
		{"direct", "direct messages, no multicast", directly, direct.Class},
	}
}

// multicasts makes cores of PrimCast.
func multicasts(classes bool) func(multicast.ProcessID, []multicast.Group, uint64) (order.Core, error) {
	return func(self multicast.ProcessID, groups []multicast.Group, seed uint64) (order.Core, error) {
		return primcast.New(primcast.Config{Self: self, Groups: groups, Classes: classes, HybridClock: true, Seed: seed, Retain: math.MaxInt})
	}
}

func directly(self multicast.ProcessID, groups []multicast.Group, _ uint64) (order.Core, error) {
	return direct.New(direct.Config{Self: self, Groups: groups})
}

// metered is a core of a carrier that counts its messages.
type metered struct {
	order.Core
	class    func([]multicast.GroupID, multicast.MessageID) multicast.Class
	messages *int // proposed at all processes
}

// Step implements multicast.Core.
func (m *metered) Step(in *multicast.Input, out *multicast.Output) {
	*m.messages += len(in.Proposed)
	m.Core.Step(in, out)
}

// Class implements order.Classifier.
func (m *metered) Class(dest []multicast.GroupID, id multicast.MessageID) multicast.Class {
	return m.class(dest, id)
}

// Global is the partition with a replica in each region. The region with index i has the partitions from
// i*Shards+1 on.
const Global = 0

// members is the number of replicas of a region's partition.
const members = 3

// Cluster is replicas on a network, with counts of the messages and entries that they order.
type Cluster struct {
	*Network
	Regions  []topology.Region
	Groups   []multicast.Group
	Messages int                // proposed in the order between partitions
	Entries  map[order.Kind]int // of own orders, each counted once
	Servers  [][]*Host          // by region; none without prices
	shards   int                // of a region
	stores   map[multicast.ProcessID]*kv.Store
	readers  []*heronfs.Node // of Config.Heron
	session  uint64          // of the newest client
}

// processors is the number of processors of a server: the thesis has two.
const processors = 2

// Config of a cluster.
type Config struct {
	Carrier *Carrier
	Regions []topology.Region
	Shards  int // partitions of a region; 0: one
	Seed    uint64
	Prices  *Prices // nil: computing takes no time
	Batch   int     // requests of clients that a step takes at most; 0: all that are there
	// Inside is the delay of frames and calls within a region; 0: InsideDelay.
	Inside time.Duration
	Memory *Memory // between the processes of a region; nil: none
	// Tram lets TRAM order each partition of a region, in the memory.
	Tram bool
	// Heron lets the partitions of the only region execute commands in the way of Heron (package heronfs), in
	// the memory. The global partition does not run.
	Heron bool
}

// New starts a cluster.
func New(c Config) (*Cluster, error) {
	k := &Cluster{
		Network: newNetwork(c.Seed), Regions: c.Regions, shards: max(1, c.Shards), stores: map[multicast.ProcessID]*kv.Store{}, Entries: map[order.Kind]int{},
	}
	k.batch = c.Batch
	k.inside = cmp.Or(c.Inside, InsideDelay)
	k.useMemory(c.Memory, c.Seed)
	if k.prices = c.Prices; c.Prices != nil {
		for range c.Regions {
			var servers []*Host
			for range members {
				servers = append(servers, k.NewHost(processors))
			}
			k.Servers = append(k.Servers, servers)
		}
	}
	places := k.plan()
	for p, g := range k.Groups {
		for i, id := range g.Members {
			b, err := k.boot(&c, uint16(p), i)
			if err != nil {
				return nil, fmt.Errorf("partition %d, replica %d: %w", p, id, err)
			}
			if b.node == nil {
				continue
			}
			m := k.add(id, places[id], b.node, k.server(p, i))
			if b.endpoint != nil {
				m.use(b.endpoint)
			}
			if i == 0 && !c.Heron {
				m.observe = k.count
			}
		}
	}
	return k, nil
}

// server returns the host of the replica with an index of a partition. The leaders of a region's shards,
// their first members, are spread over the servers; the one of a single shard is not beside the global
// replica.
func (k *Cluster) server(partition, index int) *Host {
	switch {
	case k.Servers == nil:
		return nil
	case partition == Global:
		return k.Servers[index][members-1]
	}
	shard := (partition - 1) % k.shards
	return k.Servers[(partition-1)/k.shards][(index+shard)%members]
}

// plan numbers the replicas, and returns their regions.
func (k *Cluster) plan() map[multicast.ProcessID]topology.Region {
	places := map[multicast.ProcessID]topology.Region{}
	add := func(g *multicast.Group, at topology.Region) {
		id := multicast.ProcessID(len(places) + 1)
		g.Members, places[id] = append(g.Members, id), at
	}
	first := multicast.Group{ID: Global}
	for _, r := range k.Regions {
		add(&first, r)
	}
	k.Groups = []multicast.Group{first}
	for _, r := range k.Regions {
		for range k.shards {
			g := multicast.Group{ID: multicast.GroupID(len(k.Groups))}
			for range members {
				add(&g, r)
			}
			k.Groups = append(k.Groups, g)
		}
	}
	return places
}

// lease is longer than a run: no client renews its session.
const lease = 24 * time.Hour

// owner owns all files.
var owner = posix.Cred{UID: 1000, GID: 1000}

// booted is a replica with its memory.
type booted struct {
	node     turn.Node
	endpoint *fabricsim.Endpoint // nil: none
}

// boot makes the replica with an index of a partition. It makes no node of the global partition beside Heron.
func (k *Cluster) boot(c *Config, partition uint16, index int) (b booted, err error) {
	self := k.Groups[partition].Members[index]
	keys := kv.NewMemory()
	k.stores[self] = keys
	if c.Memory != nil && partition != Global {
		b.endpoint = k.fabric.Node(fabric.NodeID(self))
	}
	if c.Heron && partition != Global {
		n, err := heronfs.New(heronfs.Config{
			Self: self, Groups: k.Groups[Global+1:], Keys: keys, Owner: owner, Endpoint: b.endpoint, Seed: c.Seed,
		})
		b.node, k.readers = n, append(k.readers, n)
		return b, err
	}
	machine, err := meta.New(keys, meta.Config{Partition: partition, Owner: owner})
	if err != nil || c.Heron {
		return b, err
	}
	own, err := k.own(c, partition, self, b.endpoint)
	if err != nil {
		return b, err
	}
	between, err := c.Carrier.core(self, k.Groups, c.Seed)
	if err != nil {
		return b, err
	}
	b.node, err = replica.New(replica.Config{
		Partition: partition, Groups: k.Groups, Self: self, Index: index, Incarnation: 1, Lease: lease,
	}, own, &metered{Core: between, class: c.Carrier.class, messages: &k.Messages}, keys, machine)
	return b, err
}

// own makes the own order of a partition.
func (k *Cluster) own(c *Config, partition uint16, self multicast.ProcessID, memory *fabricsim.Endpoint) (order.Core, error) {
	group := k.Groups[partition]
	if !c.Tram || partition == Global {
		return primcast.New(primcast.Config{Self: self, Groups: []multicast.Group{group}, Seed: c.Seed, Retain: math.MaxInt})
	}
	core, err := onesided.New(onesided.Config{Self: self, Group: group, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	for _, r := range core.Regions() {
		m, err := memory.Register(r.ID, r.Size)
		if err != nil {
			return nil, err
		}
		core.Attach(r.ID, m)
	}
	return core, nil
}

// Readers sums the counts of all processes of Heron.
func (k *Cluster) Readers() (sum heron.Stats) {
	for _, n := range k.readers {
		s := n.Stats()
		sum.Shared += s.Shared
		sum.Remote += s.Remote
		sum.Lagged += s.Lagged
		sum.DelayedBy += s.DelayedBy
	}
	return sum
}

// count counts the entries of a partition's own order, at one of its replicas.
func (k *Cluster) count(out *turn.Output) {
	for i := range out.Deliveries {
		d := &out.Deliveries[i]
		if order.IsBetween(d) {
			continue
		}
		e, err := order.DecodeEntry(d.Payload)
		if err != nil {
			k.Err = err
			return
		}
		k.Entries[e.Kind]++
	}
}

// commandPrefix is the prefix of the keys of commands that are not forgotten (package cross).
const commandPrefix = 0x43

// Verify compares the replicas of each partition, and the partitions, after all work has ended.
func (k *Cluster) Verify() error {
	if k.Err != nil {
		return k.Err
	}
	var all []meta.Keys
	for p, g := range k.Groups {
		first := k.stores[g.Members[0]]
		all = append(all, first)
		for key := range first.Scan([]byte{commandPrefix}, []byte{commandPrefix + 1}) {
			return fmt.Errorf("partition %d: command %x is not forgotten", p, key)
		}
		for _, id := range g.Members[1:] {
			if key := differ(first, k.stores[id]); key != nil {
				return fmt.Errorf("partition %d: replicas %d and %d differ at key %x", p, g.Members[0], id, key)
			}
		}
	}
	if bad := meta.CheckAll(all); len(bad) > 0 {
		return fmt.Errorf("the partitions do not fit together: %v", bad)
	}
	return nil
}

// differ returns the first key at which two stores differ; nil if they are equal.
func differ(a, b *kv.Store) []byte {
	next, stop := iter.Pull2(b.Scan(nil, nil))
	defer stop()
	for key, value := range a.Scan(nil, nil) {
		if k, v, ok := next(); !ok || !bytes.Equal(k, key) || !bytes.Equal(v, value) {
			return bytes.Clone(key)
		}
	}
	key, _, _ := next()
	return key
}

// Root returns the root directory of a partition.
func Root(partition uint16) posix.Ino { return posix.MakeIno(partition, 1) }
