package ordering

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// client is a closed loop beside a replica: when one of its messages is delivered there, the client thinks,
// and multicasts the next one.
type client struct {
	process      *process
	destinations int
	payload      []byte
	order        multicast.Order
	think        time.Duration // mean

	seq       uint64
	proposed  map[uint64]time.Duration // the times of the outstanding ones, by sequence number
	completed func(latency time.Duration)
}

func (c *client) propose() {
	n := c.process.net
	c.seq++
	c.proposed[c.seq] = n.now
	c.process.propose(multicast.Message{
		ID:      multicast.MessageID{Sender: c.process.id, Seq: c.seq},
		Dest:    choose(n.rng, c.process.place.group, c.destinations),
		Payload: c.payload,
		Order:   c.order,
	})
}

// deliver is called for each delivery at the client's replica.
func (c *client) deliver(p *process, d *multicast.Delivery) {
	if d.ID.Sender != p.id {
		return
	}
	at := c.proposed[d.ID.Seq]
	delete(c.proposed, d.ID.Seq)
	n := p.net
	c.completed(n.now - at)
	n.schedule(n.now+time.Duration(n.rng.ExpFloat64()*float64(c.think)), c.propose)
}

// choose gives the own group and others at random.
func choose(rng *rand.Rand, own, count int) []multicast.GroupID {
	dest := []multicast.GroupID{multicast.GroupID(own)}
	for len(dest) < count {
		if g := multicast.GroupID(rng.IntN(groupCount)); !slices.Contains(dest, g) {
			dest = append(dest, g)
		}
	}
	slices.Sort(dest)
	return dest
}
