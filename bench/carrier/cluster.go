package carrier

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/globalfs/globalfs/bench/direct"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/turn"
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

// global is the partition with a replica in each region. The partition of the region with index i has number
// i+1.
const global = 0

// members is the number of replicas of a region's partition.
const members = 3

// cluster is replicas on a network, with counts of the messages and entries that they order.
type cluster struct {
	*network
	regions  []topology.Region
	groups   []multicast.Group
	stores   map[multicast.ProcessID]*kv.Store
	messages int                // proposed in the order between partitions
	entries  map[order.Kind]int // of own orders, each counted once
	session  uint64             // of the newest client
}

// newCluster starts a cluster with a carrier.
func newCluster(c *Carrier, regions []topology.Region, seed uint64) (*cluster, error) {
	k := &cluster{
		network: newNetwork(seed), regions: regions, stores: map[multicast.ProcessID]*kv.Store{}, entries: map[order.Kind]int{},
	}
	places := k.plan()
	for p, g := range k.groups {
		for i, id := range g.Members {
			node, err := k.boot(c, uint16(p), i, seed)
			if err != nil {
				return nil, fmt.Errorf("partition %d, replica %d: %w", p, id, err)
			}
			m := k.add(id, places[id], node)
			if i == 0 {
				m.observe = k.count
			}
		}
	}
	return k, nil
}

// plan numbers the replicas, and returns their regions.
func (k *cluster) plan() map[multicast.ProcessID]topology.Region {
	places := map[multicast.ProcessID]topology.Region{}
	add := func(g *multicast.Group, at topology.Region) {
		id := multicast.ProcessID(len(places) + 1)
		g.Members, places[id] = append(g.Members, id), at
	}
	first := multicast.Group{ID: global}
	for _, r := range k.regions {
		add(&first, r)
	}
	k.groups = []multicast.Group{first}
	for i, r := range k.regions {
		g := multicast.Group{ID: multicast.GroupID(i + 1)}
		for range members {
			add(&g, r)
		}
		k.groups = append(k.groups, g)
	}
	return places
}

// lease is longer than a run: no client renews its session.
const lease = 24 * time.Hour

// owner owns all files.
var owner = posix.Cred{UID: 1000, GID: 1000}

// boot makes the replica with an index of a partition.
func (k *cluster) boot(c *Carrier, partition uint16, index int, seed uint64) (turn.Node, error) {
	self := k.groups[partition].Members[index]
	own, err := primcast.New(primcast.Config{Self: self, Groups: k.groups[partition : partition+1], Seed: seed, Retain: math.MaxInt})
	if err != nil {
		return nil, err
	}
	between, err := c.core(self, k.groups, seed)
	if err != nil {
		return nil, err
	}
	keys := kv.NewMemory()
	k.stores[self] = keys
	machine, err := meta.New(keys, meta.Config{Partition: partition, Owner: owner})
	if err != nil {
		return nil, err
	}
	return replica.New(replica.Config{
		Partition: partition, Groups: k.groups, Self: self, Index: index, Incarnation: 1, Lease: lease,
	}, own, &metered{Core: between, class: c.class, messages: &k.messages}, keys, machine)
}

// count counts the entries of a partition's own order, at one of its replicas.
func (k *cluster) count(out *turn.Output) {
	for i := range out.Deliveries {
		d := &out.Deliveries[i]
		if order.IsBetween(d) {
			continue
		}
		e, err := order.DecodeEntry(d.Payload)
		if err != nil {
			k.err = err
			return
		}
		k.entries[e.Kind]++
	}
}

// commandPrefix is the prefix of the keys of commands that are not forgotten (package cross).
const commandPrefix = 0x43

// verify compares the replicas of each partition, and the partitions, after all work has ended.
func (k *cluster) verify() error {
	if k.err != nil {
		return k.err
	}
	var all []meta.Keys
	for p, g := range k.groups {
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

// root is the root directory of a partition.
func root(partition uint16) posix.Ino { return posix.MakeIno(partition, 1) }
