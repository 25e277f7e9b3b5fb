package cross

import "github.com/globalfs/globalfs/pkg/multicast"

// earlyBallots are the votes that arrive before the command is relayed here. When they exceed the bounds, all
// are dropped: the coordinator asks for missing votes later.
type earlyBallots struct {
	byID  map[multicast.MessageID]map[uint16]ballot
	bytes int
}

const (
	maxEarly      = 1024
	maxEarlyBytes = 32 << 20
)

func (e *earlyBallots) keep(n *name, b ballot) {
	if len(e.byID) >= maxEarly || e.bytes+len(b.vote) > maxEarlyBytes {
		clear(e.byID)
		e.bytes = 0
	}
	if e.byID[n.id] == nil {
		e.byID[n.id] = map[uint16]ballot{}
	}
	e.bytes += len(b.vote) - len(e.byID[n.id][n.from].vote)
	e.byID[n.id][n.from] = b
}

// take removes and returns the votes on a command by party.
func (e *earlyBallots) take(id multicast.MessageID) map[uint16]ballot {
	all := e.byID[id]
	for _, b := range all {
		e.bytes -= len(b.vote)
	}
	delete(e.byID, id)
	return all
}
