package clienttest

import (
	"errors"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// list is an order: that in which messages were proposed.
type list []multicast.Delivery

// order is a member's part of a list. It is a replica.Core.
type order struct {
	member *member
	list   *list
	passed int // how much of the list the member was given, as far as it is for its group
}

// Step orders what is proposed, and delivers unless the member lags.
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

// Leads reports whether the member is the first of its group that takes part in it.
func (o *order) Leads() bool {
	i := slices.IndexFunc(o.member.group.members, (*member).follows)
	return i >= 0 && o.member.group.members[i] == o.member
}

// Members gives the members of a group.
func (o *order) Members(g multicast.GroupID) []multicast.ProcessID {
	return o.member.network.Plan.Groups()[g].Members
}

// errNoLog is given to who would restart or replace a member: it keeps nothing.
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
