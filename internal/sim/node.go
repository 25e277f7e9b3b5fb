package sim

import (
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Boot creates the Node of a process at each start. incarnation counts the starts of the process from 1.
// records are the durable records, in order, from the last checkpoint on. An error ends the run.
type Boot func(self multicast.ProcessID, incarnation uint64, records [][]byte) (turn.Node, error)
