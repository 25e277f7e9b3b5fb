package server

import (
	"slices"
	"strings"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// StoppedState is a word for the reason why a replica does not run.
type StoppedState string

// The states of a replica that does not run, or runs without a vote.
const (
	StateStopped    StoppedState = "stopped"     // an invariant is broken; it runs again after the next start of the server
	StateFailing    StoppedState = "failing"     // it has failed, and restarts after a wait
	StateCatchingUp StoppedState = "catching-up" // it takes over the state of another replica
	StateAmnesiac   StoppedState = "amnesiac"    // it has lost power, and runs without a vote until it has the state of others
)

// Stopped is a replica of this server that does not run, or has no vote.
type Stopped struct {
	Partition uint16
	Process   multicast.ProcessID
	State     StoppedState
	Reason    string // the first line of the error; empty: none
}

// stopped records why the replica of a residence does not run.
func (r *residence) stopped(state StoppedState, reason error) {
	h := r.hosted.Load()
	text, _, _ := strings.Cut(reason.Error(), "\n") // the whole error is in the server's log
	r.trouble.Store(&Stopped{Partition: h.partition, Process: h.process, State: state, Reason: text})
}

// Stopped returns the replicas of this server that should run and do not, or that have no vote, by partition.
func (s *Server) Stopped() (all []Stopped) {
	for _, r := range s.residences() {
		h := r.hosted.Load()
		if trouble := r.trouble.Load(); trouble != nil {
			all = append(all, *trouble)
		} else if h.catching.Load() {
			all = append(all, Stopped{Partition: h.partition, Process: h.process, State: StateCatchingUp})
		} else if h.amnesiac.Load() {
			all = append(all, Stopped{Partition: h.partition, Process: h.process, State: StateAmnesiac})
		}
	}
	slices.SortFunc(all, func(a, b Stopped) int { return int(a.Partition) - int(b.Partition) })
	return all
}
