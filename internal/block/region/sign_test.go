package region

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// nodesBy calls nodes in the same process.
type nodesBy map[multicast.ProcessID]func(ctx context.Context, request []byte) ([]byte, error)

func (n nodesBy) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return n[to](ctx, request)
}

// A client asks the servers of a region one after the other for a signed request. One of another version, or
// with other keys, does not end that.
func TestSigning(t *testing.T) {
	want := block.Signing{Do: block.SignGet, ID: posix.MakeBlockID(1, 2, 3), Right: block.Right{4}, Length: 5, Sum: 6}
	signs := &Node{config: Config{Sign: func(_ context.Context, s block.Signing) (string, error) {
		require.Equal(t, want, s)
		return "http://signed", nil
	}}}
	refuses := &Node{config: Config{
		Role: func(context.Context) Role { return RoleClient }, MayGet: func(context.Context, block.ID, block.Right) bool { return false },
	}}
	old := func(context.Context, []byte) ([]byte, error) { return nil, errors.New(unknownOperation + " 20") }
	remote, err := NewRemote(nodesBy{1: old, 2: refuses.Handle, 3: signs.Handle}, []multicast.ProcessID{1, 2, 3}, time.Minute)
	require.NoError(t, err)
	url, err := remote.Sign(t.Context(), want)
	require.NoError(t, err)
	require.Equal(t, "http://signed", url)
	remote.SetServers([]multicast.ProcessID{2})
	_, err = remote.Sign(t.Context(), want)
	require.ErrorIs(t, err, block.ErrForbidden)
	remote.SetServers([]multicast.ProcessID{1})
	_, err = remote.Sign(t.Context(), want)
	require.ErrorContains(t, err, "give this machine credentials")
	_, err = (&Node{}).Handle(t.Context(), []byte{byte(opSign), 9})
	require.Error(t, err)
	reply, err := (&Node{}).Handle(t.Context(), encodeSign(&want))
	require.NoError(t, err)
	require.ErrorContains(t, replyErr(reply), "not in object storage")
}
