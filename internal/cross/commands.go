package cross

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// How long other replicas leave to the leader the work that any replica could do, the next one by index
// longer; and how often a replica repeats a message that has had no effect.
const (
	leaveToLeader = time.Second
	stagger       = 300 * time.Millisecond
	repeatAfter   = 500 * time.Millisecond
)

// VotePatience is the time for which a coordinator waits for the votes of the other parties before it aborts
// a command. It waits twice as long for a command that was aborted before.
const VotePatience = 2 * time.Second

// Config of Commands.
type Config struct {
	Partition  uint16
	Self       multicast.ProcessID
	Index      int // of Self in its group
	Partitions int // of the cluster
	MaxPending int // updates that wait here before they are proposed
}

// Commands are the commands of several partitions at one replica, and the replica's vector. Commands have one
// owner.
type Commands struct {
	cfg      Config
	keys     meta.Keys
	machine  *meta.Machine
	orders   *order.Orders
	sessions *session.Sessions

	vector ask.Vector // entry Partition: this partition's own state
	sealed sealed
	time   posix.Time // of the entry that is being executed

	number      uint64     // of the newest command
	list        []*command // by number
	byID        map[multicast.MessageID]*command
	tombstones  map[multicast.MessageID]bool                // commands that are aborted before they are relayed
	tombstoning map[multicast.MessageID]multicast.MessageID // the proposed entry of the newest tombstone, at most one
	sealing     multicast.MessageID                         // the newest durable entry that this replica has proposed
	changed     bool                                        // since the last call of Changed: the undecided commands or their marks
	unsettled   bool                                        // since the last call of Settle: the undecided commands or their marks
	moved       bool                                        // since the last call of Save: a position of a class

	relays        relays
	confirmations []finished // outcomes ordered since the last step
	receipts      []receipt  // posts executed since the last step
	sent          int        // bytes of votes in this step
	relayed       int        // bytes of relays in this step

	requests requests
	early    earlyBallots
	posting  posting
	reach    reach

	now     multicast.Instant
	wakeAt  time.Duration
	answers []Answer // since the last call of Answers
}

// Answer is the answer to calls. The replica replies with its vector at that time.
type Answer struct {
	Tokens  []uint64
	Outcome ask.Outcome
	Result  []byte
}

// New returns the commands that keys hold, at a vector that has this partition's present count.
func New(cfg Config, keys meta.Keys, machine *meta.Machine, orders *order.Orders, sessions *session.Sessions) (*Commands, error) {
	c := &Commands{
		cfg: cfg, keys: keys, machine: machine, orders: orders, sessions: sessions,
		byID: map[multicast.MessageID]*command{}, tombstones: map[multicast.MessageID]bool{},
		tombstoning: map[multicast.MessageID]multicast.MessageID{},
		requests:    newRequests(),
		early:       earlyBallots{byID: map[multicast.MessageID]map[uint16]ballot{}},
		posting:     posting{to: map[uint16]*channel{}, from: map[uint16]*channel{}},
		reach:       reach{last: map[multicast.ProcessID]time.Duration{}, asked: map[multicast.ProcessID]time.Duration{}},
	}
	if err := c.loadVector(); err != nil {
		return nil, err
	}
	return c, c.load()
}

// Step does the work for other partitions that is due: it proposes entries, sends messages, and lets waiting
// updates in. It may answer calls.
func (c *Commands) Step() {
	c.wakeAt = 0
	leads := c.orders.Leads()
	c.proposeRelays(leads)
	c.pursueCommands(leads)
	c.pursuePosts(leads)
	c.admitRequests()
	c.askReach()
	c.proposeSeal()
}

// Begin sets the time of the step.
func (c *Commands) Begin(now multicast.Instant) { c.now = now }

// Executed asks for a step if the entries that were executed have left posts.
func (c *Commands) Executed() {
	if len(c.machine.Destinations()) > 0 {
		c.hurry()
	}
}

// Wake returns the time of the next step that Commands need, on the monotonic clock; 0: only after an event.
func (c *Commands) Wake() time.Duration { return c.wakeAt }

// hurry asks for a step at once.
func (c *Commands) hurry() { c.wakeAt = max(c.now.Mono, 1) }

// wakeBy asks for a step at a time.
func (c *Commands) wakeBy(at time.Duration) { c.wakeAt = order.Earliest(c.wakeAt, max(at, 1)) }

// patience returns the time until which this replica leaves work to the leader.
func (c *Commands) patience() time.Duration {
	return c.now.Mono + leaveToLeader + stagger*time.Duration(c.cfg.Index)
}

// Answers returns the answers since the last call. They are valid until the next call of another method.
func (c *Commands) Answers() []Answer {
	answers := c.answers
	c.answers = c.answers[:0]
	return answers
}

// reply answers calls.
func (c *Commands) reply(tokens []uint64, outcome ask.Outcome, result []byte) {
	c.answers = append(c.answers, Answer{tokens, outcome, result})
}

// Undecided returns the number of commands that wait for a decision or an outcome.
func (c *Commands) Undecided() int {
	n := 0
	for _, x := range c.list {
		if x.isUndecided() {
			n++
		}
	}
	return n
}
