package region

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

// leastRole is the least role for each request: lower roles may not send it.
var leastRole = map[op]Role{
	opPut: RoleClient, opPutAll: RoleClient, opGet: RoleClient, opGetByRight: RoleClient, opMembers: RoleClient, opUsage: RoleClient, opStatus: RoleClient, opSync: RoleClient, opSign: RoleClient,
	opDelete: RoleTrusted, opList: RoleTrusted, opSizes: RoleTrusted, opSetMembers: RoleAdmin,
	opStore: RoleServer, opStoreAll: RoleServer, opFetch: RoleServer, opDrop: RoleServer, opPing: RoleServer, opDigest: RoleServer, opScope: RoleServer, opHave: RoleServer, opFlush: RoleServer,
}

func TestRequestsTakeARole(t *testing.T) {
	id := posix.MakeBlockID(1, 2, 3)
	for o := opPut; o < opEnd; o++ {
		least, listed := leastRole[o]
		require.True(t, listed, "who may make request %d?", o)
		for role := RoleNobody; role <= RoleServer; role++ {
			n := &Node{config: Config{Role: func(context.Context) Role { return role }}}
			err := n.authorize(t.Context(), &request{op: o, id: id, block: block.Block{ID: id}, signing: block.Signing{Do: block.SignPut, ID: id}})
			if role >= least {
				require.NoError(t, err, "request %d of %v", o, role)
			} else {
				require.ErrorIs(t, err, block.ErrForbidden, "request %d of %v", o, role)
			}
		}
		require.NoError(t, (&Node{}).authorize(t.Context(), &request{op: o}), "nobody proves who he is")
	}
}

// Only bound clients need a right to a block.
func TestReadsOfClientsNeedARight(t *testing.T) {
	for role, allowed := range map[Role]bool{RoleClient: false, RoleTrusted: true, RoleAdmin: true, RoleServer: true} {
		n := &Node{config: Config{
			Role:   func(context.Context) Role { return role },
			MayGet: func(_ context.Context, id block.ID, right block.Right) bool { return right == block.Right(id) },
		}}
		id := posix.MakeBlockID(1, 2, 3)
		for _, q := range []request{{op: opGet, id: id}, {op: opGetByRight, id: id, right: block.Right{1}}} {
			require.Equal(t, allowed, n.authorize(t.Context(), &q) == nil, "%v", role)
		}
		require.NoError(t, n.authorize(t.Context(), &request{op: opGetByRight, id: id, right: block.Right(id)}), "%v", role)
		sign := request{op: opSign, signing: block.Signing{Do: block.SignGet, ID: id, Right: block.Right{1}}}
		require.Equal(t, allowed, n.authorize(t.Context(), &sign) == nil, "%v", role)
		sign.signing.Right = block.Right(id)
		require.NoError(t, n.authorize(t.Context(), &sign), "%v", role)
	}
}

// A client can put only blocks that a write could name.
func TestPutsOfClientsArePlausible(t *testing.T) {
	for role, allowed := range map[Role]bool{RoleClient: false, RoleTrusted: true, RoleServer: true} {
		n := &Node{config: Config{Role: func(context.Context) Role { return role }, Partitions: func() int { return 2 }}}
		require.NoError(t, n.authorize(t.Context(), &request{op: opPut, block: block.Block{ID: posix.MakeBlockID(1, 2, 3)}}))
		for _, id := range []block.ID{{}, posix.MakeBlockID(1, 0, 3), posix.MakeBlockID(1, 2, 0), posix.MakeBlockID(2, 2, 3)} {
			require.Equal(t, allowed, n.authorize(t.Context(), &request{op: opPut, block: block.Block{ID: id}}) == nil, "%v", role)
			both := []block.Block{{ID: posix.MakeBlockID(1, 2, 3)}, {ID: id}}
			require.Equal(t, allowed, n.authorize(t.Context(), &request{op: opPutAll, blocks: both}) == nil, "%v", role)
			for _, do := range []block.Signed{block.SignPut, block.SignCompare} {
				require.Equal(t, allowed, n.authorize(t.Context(), &request{op: opSign, signing: block.Signing{Do: do, ID: id}}) == nil, "%v", role)
			}
		}
	}
}

// The answer contains the reason, also after encoding and decoding.
func TestForbiddenIsAnswered(t *testing.T) {
	n := &Node{config: Config{Role: func(context.Context) Role { return RoleClient }}}
	reply, err := n.Handle(t.Context(), encodeDelete(opDelete, []block.ID{{1}}))
	require.NoError(t, err)
	err = replyErr(reply)
	require.ErrorIs(t, err, block.ErrForbidden)
	require.ErrorContains(t, err, "from a client, but requires a client that acts for all users")
	require.True(t, isFinal(err), "no other server would answer otherwise")
}
