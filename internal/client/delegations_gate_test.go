package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// An update enters unless the client asks for a directory that the update may touch, and if there was no
// request since the update looked at the logs. A request waits for the updates inside that may touch the
// directory, and for no other.
func TestTheGate(t *testing.T) {
	g := newGate()
	dir, other, far := posix.MakeIno(1, 5), posix.MakeIno(1, 6), posix.MakeIno(2, 5)
	in := touchOf(&meta.Command{Op: meta.OpMknod, Ino: dir, Name: "f"})
	beside := touchOf(&meta.Command{Op: meta.OpMknod, Ino: other, Name: "f"})
	file := touchOf(&meta.Command{Op: meta.OpWrite, Ino: posix.MakeIno(1, 7)})
	elsewhere := touchOf(&meta.Command{Op: meta.OpWrite, Ino: far})
	into := touchOf(&meta.Command{Op: meta.OpRename, Ino: other, NewParent: dir})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	enter := func(ctx context.Context, x *touch) bool {
		entered, err := g.enter(ctx, x, g.count())
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		return entered
	}
	before := g.count()
	require.True(t, enter(t.Context(), in))
	shut := make(chan error)
	go func() { shut <- g.shut(t.Context(), dir) }()
	for g.count() == before {
		continue
	}
	for _, x := range []*touch{in, into, file} {
		require.False(t, enter(ended, x), "it may touch the directory")
	}
	for _, x := range []*touch{beside, elsewhere} {
		require.True(t, enter(ended, x), "it is elsewhere")
	}
	g.leave(in)
	require.NoError(t, <-shut, "the updates inside are elsewhere")
	waiting := make(chan bool)
	turns := g.count()
	go func() {
		entered, err := g.enter(t.Context(), in, turns)
		waiting <- entered && err == nil
	}()
	g.open()
	require.False(t, <-waiting, "it has looked at the logs during the request")
	entered, err := g.enter(t.Context(), in, before)
	require.NoError(t, err)
	require.False(t, entered)
	require.True(t, enter(t.Context(), file))
	require.ErrorIs(t, g.shut(ended, dir), context.Canceled, "an update is inside")
	require.True(t, enter(t.Context(), in), "the request has ended")
}
