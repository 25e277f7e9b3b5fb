package cross

import (
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// VotePatience is the time for which a coordinator waits for the votes of the other parties before it aborts
// a command. It waits twice as long for a command that was aborted before.
const VotePatience = 2 * time.Second

// Config of Commands.
type Config struct {
	Partition  uint16
	Self       multicast.ProcessID
	Index      int // of Self in its group
	Partitions int // of the cluster at its creation
	MaxPending int // updates that wait here before they are proposed
	// Recall reports whether a client exclusively holds an object of a command of some partitions, at a
	// place of the order, and asks for its return. Nil: no client holds any.
	Recall func(command *meta.Command, parties []uint16) bool
}

// Commands are the commands of several partitions at one replica, and the replica's vector. Commands have one
// owner. The parts with methods for the replica are embedded.
type Commands struct {
	cfg      Config
	machine  *meta.Machine
	orders   *order.Orders
	sessions *session.Sessions

	*timer
	*table
	*vector
	*relays
	*reach
	*requests

	tombstones   *tombstones
	earlyBallots *earlyBallots
	gate         *gate
	pursuit      *pursuit
	posting      *posting
}

// New returns the commands that keys hold, at a vector that has this partition's present count.
func New(cfg Config, keys meta.Keys, machine *meta.Machine, orders *order.Orders, sessions *session.Sessions) (*Commands, error) {
	c := &Commands{cfg: cfg, machine: machine, orders: orders, sessions: sessions}
	self := cfg.Partition
	c.timer = &timer{index: cfg.Index}
	c.table = &table{partition: self, keys: keys, machine: machine, timer: c.timer, byID: map[multicast.MessageID]*command{}}
	c.vector = &vector{partition: self, keys: keys, table: c.table}
	c.gate = &gate{partition: self, orders: orders}
	c.relays = &relays{keys: keys, orders: orders, gate: c.gate, timer: c.timer}
	c.reach = &reach{
		self: cfg.Self, orders: orders, timer: c.timer,
		lastReceived: map[multicast.ProcessID]time.Duration{}, pingedSince: map[multicast.ProcessID]time.Duration{},
	}
	c.requests = &requests{
		partition: self, maxPending: cfg.MaxPending, machine: machine, orders: orders, sessions: sessions,
		table: c.table, vector: c.vector, gate: c.gate, reach: c.reach, timer: c.timer, queue: newQueue(),
	}
	c.tombstones = &tombstones{keys: keys, ids: map[multicast.MessageID]bool{}}
	c.earlyBallots = &earlyBallots{byID: map[multicast.MessageID]map[uint16]ballot{}}
	c.pursuit = &pursuit{
		partition: self, orders: orders, sessions: sessions, table: c.table, tombstones: c.tombstones, earlyBallots: c.earlyBallots,
		relays: c.relays, vector: c.vector, gate: c.gate, reach: c.reach, timer: c.timer,
	}
	c.posting = &posting{
		partition: self, machine: machine, orders: orders, table: c.table, vector: c.vector, gate: c.gate,
		reach: c.reach, timer: c.timer, to: map[uint16]*channel{}, from: map[uint16]*channel{},
	}
	return c, c.load()
}

// load reads the replicated state that the keys hold.
func (c *Commands) load() error {
	if err := c.vector.load(c.cfg.Partitions); err != nil {
		return err
	}
	for _, load := range []func() error{c.relays.load, c.tombstones.load, c.table.load} {
		if err := load(); err != nil {
			return err
		}
	}
	return nil
}

// Save stores the vector, and the positions of the classes. It belongs into the batch of the entries that it
// covers.
func (c *Commands) Save() {
	c.vector.save()
	c.relays.save()
}

// Step does the due work for other partitions: it proposes entries, sends messages, and proposes waiting
// updates. It may answer calls.
func (c *Commands) Step() {
	c.timer.reset()
	leads := c.orders.Leads()
	c.relays.propose(leads)
	c.pursuit.step(leads)
	c.posting.step(leads)
	c.requests.step()
	c.reach.ping()
	c.gate.proposeSeal()
}

// Executed requests a step if the executed entries have made posts.
func (c *Commands) Executed() {
	if len(c.machine.Destinations()) > 0 {
		c.timer.hurry()
	}
}

// EndEntry ends the execution of an entry that Advance has begun: it updates the vector's entry for this
// partition with the commands that are undecided now. If the executed entry is durable, the state is sealed.
func (c *Commands) EndEntry() {
	c.vector.endEntry()
	if c.gate.seal(c.Vector()) {
		c.posting.seal()
		c.timer.hurry()
	}
}
