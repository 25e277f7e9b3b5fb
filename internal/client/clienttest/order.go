package clienttest

import (
	"errors"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// list is an order: the messages in the sequence of their proposals.
type list []multicast.Delivery

// order is a member's view of a list. It is a replica.Core.
type order struct {
	member *member
	list   *list
	passed int // length of the processed part of the list
}

// Step orders the proposed messages, and delivers unless the member lags.
func (o *order) Step(in *multicast.Input, out *multicast.Output) {
	for _, p := range in.Proposed {
		*o.list = append(*o.list, multicast.Delivery{Message: p, Final: multicast.Timestamp(len(*o.list) + 1)})
	}
	if !o.member.follows() {
		return
	}
	for _, d := range (*o.list)[o.passed:] {
		if slices.Contains(d.Dest, o.member.group.id) {
			out.Deliveries = append(out.Deliveries, d)
		}
	}
	o.passed = len(*o.list)
}

// Leads reports whether the member is the first member of its group that follows the order.
func (o *order) Leads() bool {
	i := slices.IndexFunc(o.member.group.members, (*member).follows)
	return i >= 0 && o.member.group.members[i] == o.member
}

// Members returns the members of a group.
func (o *order) Members(g multicast.GroupID) []multicast.ProcessID {
	return o.member.network.Plan.Groups()[g].Members
}

// errNoLog is the error of Replay and Adopt: an order has no log, so no test can restart or replace a member.
var errNoLog = errors.New("a member of a list keeps no log")

// Replay implements multicast.Core.
func (o *order) Replay([]byte) error { return errNoLog }

// Checkpoint implements replica.Core.
func (o *order) Checkpoint() []byte { return nil }

// State implements multicast.Transferable.
func (o *order) State() []byte { return nil }

// Adopt implements multicast.Transferable.
func (o *order) Adopt([]byte) ([]byte, multicast.Progress, error) {
	return nil, nil, errNoLog
}
