package daemon

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// extents returns the extents of a file from a replica, after the replica knows the file.
func (i *intruder) extents(p *topology.Partition, ino posix.Ino, flags uint32) []meta.Extent {
	i.t.Helper()
	c := meta.Command{Op: meta.OpExtents, Ino: ino, Length: 1 << 30, Flags: flags}
	return i.query(p, c, func(r *meta.Result) bool { return len(r.Extents) > 0 }).Extents
}

// getBy reads a block with a right, from all regions of a partition.
func getBy(t *testing.T, c *attach.Client, p *topology.Partition, id posix.BlockID, right posix.BlockRight) error {
	t.Helper()
	store, err := c.BlockStore(p.ID)
	require.NoError(t, err)
	_, err = store.Get(block.WithRight(t.Context(), right), id, nil)
	return err
}

// The id of a block is not enough to read it: a client for one user shows the right that it got with the
// extent, and no client can use the right of another client.
func TestABlockIsReadByRight(t *testing.T) {
	w := newWorld(t, []topology.Region{"west", "east"}, 3)
	w.certify()
	w.startAll()
	a := w.operator()
	trusted, plan := w.client(a), a.Cluster()
	thief, owner := newBound(w, "narrow", 7, 4711), newBound(w, "owner", 8, 4712)
	user8 := posix.Cred{UID: 8, GID: 8}
	content := bytes.Repeat([]byte("secret"), 50_000)
	for k := range plan.Partitions[:2] {
		p := &plan.Partitions[k]
		dir := sharedDirectory(t, trusted, p.Root())
		writer := w.client(w.access(identity.Client, "owner"))
		walk(t, writer, p.Root(), "shared")
		file, err := writer.Create(t.Context(), user8, client.Name{Dir: dir, Name: "private"}, 0o600, 0)
		require.NoError(t, err)
		_, err = writer.Write(t.Context(), user8, client.Write{Ino: file.Ino, Data: content})
		require.NoError(t, err)

		owner.walk(p, "shared", "private")
		e := owner.extents(p, file.Ino, meta.ReturnRights)[0]
		require.NotZero(t, e.Right)
		require.Zero(t, owner.extents(p, file.Ino, 0)[0].Right, "who does not ask may not know of rights")
		attacker := w.client(w.access(identity.Client, "narrow"))
		walk(t, attacker, p.Root(), "shared")
		own, err := attacker.Create(t.Context(), user7, client.Name{Dir: dir, Name: "own"}, 0o600, 0)
		require.NoError(t, err)
		_, err = attacker.Write(t.Context(), user7, client.Write{Ino: own.Ino, Data: content})
		require.NoError(t, err)
		thief.walk(p, "shared", "own")
		for what, right := range map[string]posix.BlockRight{
			"none":                       {},
			"the right of another":       e.Right,
			"a right to another block":   thief.extents(p, own.Ino, meta.ReturnRights)[0].Right,
			"the id itself, as a right":  posix.BlockRight(e.Block),
			"something that was made up": {1},
		} {
			require.ErrorIs(t, getBy(t, attacker, p, e.Block, right), block.ErrForbidden, what)
		}
		again := w.client(w.access(identity.Client, "owner")) // its caches are empty
		require.NoError(t, getBy(t, again, p, e.Block, e.Right))
		for name, who := range map[string]string{"private": "owner", "own": "narrow"} {
			reader := w.client(w.access(identity.Client, who))
			awaitContent(t, reader, walk(t, reader, p.Root(), "shared", name), content)
		}
		require.NoError(t, getBy(t, w.client(w.operator()), p, e.Block, posix.BlockRight{}), "an operator needs none")
		require.NoError(t, getBy(t, w.client(w.access(identity.Client, "laptop")), p, e.Block, posix.BlockRight{}), "nor who acts for user 0")
	}
	t.Run("after a rotation of the keys", func(t *testing.T) {
		p := &plan.Partitions[1]
		reader := w.client(w.access(identity.Client, "owner"))
		file, err := reader.Lookup(t.Context(), p.Root(), "shared")
		require.NoError(t, err)
		file, err = reader.Lookup(t.Context(), file.Ino, "private")
		require.NoError(t, err)
		old := owner.extents(p, file.Ino, meta.ReturnRights)[0]
		for range 2 {
			_, err := identity.RotateVectorKeys(w.file.Certificates)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			return getBy(t, w.client(w.access(identity.Client, "owner")), p, old.Block, old.Right) != nil
		}, time.Minute, 100*time.Millisecond, "the servers take the new keys")
		_, err = reader.GetAttr(t.Context(), file.Ino)
		require.Equal(t, posix.ESTALE, err, "its ticket is of the keys before the last ones")
		awaitContent(t, reader, walk(t, reader, p.Root(), "shared", "private"), content)
	})
}

// Mounts of versions before rights can read if the cluster file makes rights optional.
func TestRightsAreOptional(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	w.file.Clients.BlockRights = rightsOptional
	w.certify()
	w.startAll()
	a := w.operator()
	p := &a.Cluster().Partitions[1]
	dir := sharedDirectory(t, w.client(a), p.Root())
	i := newIntruder(w, 4711)
	c := w.client(w.access(identity.Client, "narrow"))
	walk(t, c, p.Root(), "shared")
	file, err := c.Create(t.Context(), user7, client.Name{Dir: dir, Name: "own"}, 0o600, 0)
	require.NoError(t, err)
	_, err = c.Write(t.Context(), user7, client.Write{Ino: file.Ino, Data: make([]byte, 10_000)})
	require.NoError(t, err)
	fresh := w.client(w.access(identity.Client, "narrow"))
	id := i.extents(p, i.walk(p, "shared", "own"), 0)[0].Block
	require.NoError(t, getBy(t, fresh, p, id, posix.BlockRight{}))
	require.ErrorIs(t, getBy(t, w.client(w.access(identity.Client, "narrow")), p, id, posix.BlockRight{1}), block.ErrForbidden)
}
