package region

import (
	"context"
	"fmt"

	"github.com/globalfs/globalfs/internal/block"
)

// Role is the role that the network has verified for the caller of a request. Each role has the permissions
// of those before it.
type Role uint8

// The roles.
const (
	RoleNobody  Role = iota // nothing
	RoleClient              // store blocks, get those that it has a right to, query the state of the region
	RoleTrusted             // delete and list blocks: a client that acts for all users
	RoleAdmin               // change the members
	RoleServer              // all requests between servers
)

var roleNames = [...]string{"nobody", "a client", "a client that acts for all users", "an operator", "a server of the cluster"}

// String returns the name of the role for people.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// role returns the least role that may send a request. Requests that are not listed are for servers.
func (o op) role() Role {
	switch o {
	case opPut, opPutAll, opGet, opGetByRight, opMembers, opUsage, opStatus, opSync, opSign:
		return RoleClient
	case opDelete, opList, opSizes:
		return RoleTrusted
	case opSetMembers:
		return RoleAdmin
	}
	return RoleServer
}

// isOfTree reports whether the partition of a block exists.
func (n *Node) isOfTree(id block.ID) bool {
	return n.config.Partitions == nil || int(id.Partition()) < n.config.Partitions()
}

// authorize refuses requests that the caller may not send.
func (n *Node) authorize(ctx context.Context, q *request) error {
	if n.config.Role == nil {
		return nil
	}
	is := n.config.Role(ctx)
	if least := q.op.role(); is < least {
		return fmt.Errorf("block request %d is from %v, but requires %v: %w", q.op, is, least, block.ErrForbidden)
	}
	if q.op == opSign && is == RoleClient && q.signing.Do == block.SignGet {
		return n.authorize(ctx, &request{op: opGetByRight, id: q.signing.ID, right: q.signing.Right})
	}
	for _, id := range q.puts() {
		if is == RoleClient && (id.Session() == 0 || id.Counter() == 0 || !n.isOfTree(id)) {
			return fmt.Errorf("put block %v: no write names a block like this: %w", id, block.ErrForbidden)
		}
	}
	if (q.op == opGet || q.op == opGetByRight) && is == RoleClient && n.config.MayGet != nil && !n.config.MayGet(ctx, q.id, q.right) {
		return fmt.Errorf("get block %v: the caller shows no right to it that this server accepts: upgrade the client, or give all servers the same vector keys: %w", q.id, block.ErrForbidden)
	}
	return nil
}

// puts returns the ids of the blocks that a request of a client writes.
func (q *request) puts() (ids []block.ID) {
	switch q.op {
	case opPut:
		return []block.ID{q.block.ID}
	case opSign:
		return []block.ID{q.signing.ID}
	case opPutAll:
		for i := range q.blocks {
			ids = append(ids, q.blocks[i].ID)
		}
	}
	return ids
}
