package order

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
)

// State returns the states of both cores, for the Adopt of another replica of the group.
func (o *Orders) State() []byte {
	return varint.AppendBytes(varint.AppendBytes(nil, o.own.State()), o.between.State())
}

// Adopt returns the record that replaces this replica's log once its store is replaced by that of the replica
// that gave the states. An error means that the states are not newer: nothing has changed.
func (o *Orders) Adopt(states []byte) (record []byte, err error) {
	r := varint.NewReader(states)
	ownState, betweenState := r.Bytes(), r.Bytes()
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("states of %d bytes: %w", len(states), err)
	}
	own, _, err := o.own.Adopt(ownState)
	if err != nil {
		return nil, fmt.Errorf("order of the partition: %w", err)
	}
	between, _, err := o.between.Adopt(betweenState)
	if err != nil {
		return nil, fmt.Errorf("order between partitions: %w", err)
	}
	return checkpoint(own, between), nil
}
