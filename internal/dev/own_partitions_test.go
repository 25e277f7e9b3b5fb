package dev

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// A client's update of one partition is ordered after the commands of several partitions that have ended for
// the client before, even in a partition that the client did not call: it can change a file that it has just
// made, or moved there.
func TestUpdateAfterCommandOfSeveralPartitions(t *testing.T) {
	w := startWorld(t, testConfig(t.TempDir()))
	c, ctx := w.clients[west], t.Context()
	dir, err := c.Mkdir(ctx, posix.Cred{}, client.Name{Dir: w.roots[west], Name: "sends"}, 0o755)
	require.NoError(t, err)
	require.NoError(t, c.Place(ctx, posix.Cred{}, dir.Ino, client.Placement{Spread: []topology.Region{east}}))
	for i := range 100 {
		name := fmt.Sprint("f", i)
		write(t, c, dir.Ino, name, name) // the file is in the east
		from, there, further := client.Name{Dir: dir.Ino, Name: name}, client.Name{Dir: w.roots[east], Name: name}, client.Name{Dir: w.roots[east], Name: name + "-moved"}
		require.NoError(t, c.Rename(ctx, posix.Cred{}, from, there, 0))
		require.NoError(t, c.Rename(ctx, posix.Cred{}, there, further, 0), "what has just been renamed is there")
		if i%2 == 0 {
			require.NoError(t, c.Unlink(ctx, posix.Cred{}, further))
		}
	}
}
