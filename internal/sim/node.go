package sim

import (
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Boot makes the Node of a process that starts, for the first time or again. Incarnation counts
// its starts from 1; records are the durable ones, in order, from the last
// checkpoint on. An error ends the run.
type Boot func(self multicast.ProcessID, incarnation uint64, records [][]byte) (turn.Node, error)
