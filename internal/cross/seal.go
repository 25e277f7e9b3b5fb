package cross

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// gate enforces the rules of durability. It proposes the entries of this package, durable or not (D1). It has
// the only vector that may be sent to other partitions: that of the newest durable entry (D2, D3).
// Its state is not stored: after a restart nothing is sealed until the next durable entry is executed.
type gate struct {
	partition uint16
	orders    *order.Orders

	proposed     multicast.MessageID // the newest durable entry that this replica has proposed
	vector       ask.Vector          // of the state at the newest durable entry; nil: none was executed since the start
	durable      bool                // the entry that is being executed is
	vectorNeeded bool                // a message waits for a newer vector
}

// propose proposes an entry of this package in the partition's own order.
func (g *gate) propose(k order.Kind, body []byte) multicast.MessageID {
	id := g.orders.Propose(order.Entry{Kind: k, Body: body, Durable: isDurable(k)})
	if isDurable(k) {
		g.proposed = id
	}
	return id
}

// begin records whether the entry that is to be executed is durable.
func (g *gate) begin(durable bool) { g.durable = durable }

// seal records that the state may leave, if the entry that has led to it is durable. It reports whether the
// entry is durable.
func (g *gate) seal(state ask.Vector) bool {
	if !g.durable {
		return false
	}
	g.vector, g.durable = state.Clone(), false
	return true
}

// sealed returns the vector for messages; nil: there is none. The caller must not change it.
func (g *gate) sealed() ask.Vector { return g.vector }

// isSealed reports whether there is a sealed vector for a message. If not, it asks for one.
func (g *gate) isSealed() bool {
	g.vectorNeeded = g.vectorNeeded || g.vector == nil
	return g.vector != nil
}

// isUpToDate reports whether the whole state is sealed. count is the number of entries that it holds.
func (g *gate) isUpToDate(count uint64) bool {
	return g.vector != nil && g.vector.Of(g.partition).Count == count
}

// want asks for a newer sealed vector.
func (g *gate) want() { g.vectorNeeded = true }

// proposeSeal proposes a durable entry if a message waits for one. If a durable entry of this replica is not
// delivered yet, no other one is needed: the state of the message is executed already, so it precedes that
// entry in the order.
func (g *gate) proposeSeal() {
	if g.vectorNeeded && !g.orders.Pending(g.proposed) {
		g.propose(EntrySeal, nil)
	}
	g.vectorNeeded = false
}
