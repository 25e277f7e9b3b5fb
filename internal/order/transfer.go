package order

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
)

// State returns the states of both cores. Another replica of the group passes them to Adopt.
func (o *Orders) State() []byte {
	return varint.AppendBytes(varint.AppendBytes(nil, o.own.State()), o.between.State())
}

// Adopt takes over the states of another replica, together with that replica's store. It returns the record
// that must replace the whole log of this replica once the store is replaced. An error means that the states
// are not newer than the own ones; then nothing has changed.
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
