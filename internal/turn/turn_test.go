package turn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A stepper reuses one Input and one Output for all turns: nothing of a turn may reach the next one.
func TestResetLeavesNothing(t *testing.T) {
	calls := []Call{{Token: 7, Data: []byte("request")}}
	done := []fabric.Completion{{Token: 7, Data: []byte("read")}}
	in := Input{Requests: calls, Withdrawn: []uint64{7}, Completions: done}
	in.Lead, in.Frames = true, []multicast.Frame{{Peer: 1}}
	in.Reset()
	require.Empty(t, in.Requests)
	require.Empty(t, in.Withdrawn)
	require.Empty(t, in.Frames)
	require.False(t, in.Lead)
	require.Empty(t, in.Completions)
	require.Zero(t, done[0])
	require.Zero(t, calls[0], "the bytes of a request are not held any more")

	replies, persisted := []Call{{Token: 7, Data: []byte("reply")}}, []Call{{Token: 8, Data: []byte("on disk")}}
	ops := []fabric.Op{{Token: 7, Data: []byte("write")}}
	out := Output{Replies: replies, Persisted: persisted, Rights: []fabric.Right{{Peer: 1}}, Ops: ops}
	out.Wake, out.Records, out.Early = 5, [][]byte{{1}}, []multicast.Frame{{Peer: 1}}
	out.Reset()
	require.Empty(t, out.Replies)
	require.Empty(t, out.Records)
	require.Empty(t, out.Early)
	require.Zero(t, out.Wake)
	require.Zero(t, replies[0])
	require.Empty(t, out.Rights)
	require.Empty(t, out.Ops)
	require.Zero(t, ops[0])
	require.Empty(t, out.Persisted)
	require.Zero(t, persisted[0])
}
