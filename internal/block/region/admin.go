package region

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Admin queries single storage servers for their state, and gives them new members of the region.
type Admin struct{ peers *peers }

// NewAdmin makes an Admin with a timeout for each answer.
func NewAdmin(caller Caller, timeout time.Duration) *Admin {
	return &Admin{peers: newPeers(caller, timeout)}
}

// Status returns the state of one server's part of its region.
func (a *Admin) Status(ctx context.Context, server multicast.ProcessID) (Status, error) {
	reply, err := a.peers.call(ctx, server, []byte{byte(opStatus)})
	if err != nil {
		return Status{}, fmt.Errorf("status of storage server %d: %w", server, err)
	}
	return decodeStatus(reply)
}

// Members returns the newest members of the region that a server knows.
func (a *Admin) Members(ctx context.Context, server multicast.ProcessID) (Members, error) {
	reply, err := a.peers.call(ctx, server, []byte{byte(opMembers)})
	if err != nil {
		return Members{}, fmt.Errorf("members as storage server %d knows them: %w", server, err)
	}
	return decodeMembers(reply)
}

// SetMembers gives newer members to one server. The other servers learn them from it. To add or drain
// servers, change the result of Members and raise its version by one. Only one caller may do so at a time.
// The server must be a member already. Otherwise a search could ask only servers that do not know the new
// places of the blocks (M3).
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
