package region

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Admin asks single storage servers for their state, and gives them new members of the region.
type Admin struct{ peers *peers }

// NewAdmin makes an Admin that waits so long for an answer.
func NewAdmin(caller Caller, timeout time.Duration) *Admin {
	return &Admin{peers: newPeers(caller, timeout)}
}

// Status gives the state of one server's part of its region.
func (a *Admin) Status(ctx context.Context, server multicast.ProcessID) (Status, error) {
	reply, err := a.peers.call(ctx, server, []byte{byte(opStatus)})
	if err != nil {
		return Status{}, fmt.Errorf("status of storage server %d: %w", server, err)
	}
	return decodeStatus(reply)
}

// Members gives the members of the region as one of its servers knows them.
func (a *Admin) Members(ctx context.Context, server multicast.ProcessID) (Members, error) {
	reply, err := a.peers.call(ctx, server, []byte{byte(opMembers)})
	if err != nil {
		return Members{}, fmt.Errorf("members as storage server %d knows them: %w", server, err)
	}
	return decodeMembers(reply)
}

// SetMembers gives newer members to one server. The others learn them from it, within moments if they can be
// reached. To add or drain servers, change the result of Members and raise its version by one, at one place
// at a time. The server must be a member already. Otherwise others could look for blocks when no server that
// they ask knows that the blocks are elsewhere (M3).
func (a *Admin) SetMembers(ctx context.Context, server multicast.ProcessID, m Members) error {
	if err := m.Validate(); err != nil {
		return err
	}
	known, err := a.Members(ctx, server)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(known.Servers, func(s Server) bool { return s.ID == server }) {
		return fmt.Errorf("tell storage server %d members of version %d: it is no member of version %d yet: tell one that is", server, m.Version, known.Version)
	}
	if _, err := a.peers.call(ctx, server, encodeSetMembers(&m)); err != nil {
		return fmt.Errorf("tell storage server %d members of version %d: %w", server, m.Version, err)
	}
	return nil
}
