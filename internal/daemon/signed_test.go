package daemon

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// A client without credentials for the object storage works by requests that servers sign, of each region. It
// gets no block without a right to it, and replaces none.
func TestClientsWithoutCredentials(t *testing.T) {
	w := newWorld(t, []topology.Region{"west", "east"}, 3)
	storage := objectstest.Start(t, t.TempDir())
	w.file.Objects = &topology.Objects{Bucket: topology.Bucket{Endpoint: storage.Endpoint(), Bucket: objectstest.Bucket, Region: "us-east-1", PathStyle: true}}
	w.certify()
	w.startAll()
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	a := w.operator()
	trusted, plan := w.client(a), a.Cluster()
	thief, owner, user8 := newBound(w, "narrow", 7, 4711), newBound(w, "owner", 8, 4712), posix.Cred{UID: 8, GID: 8}
	content := bytes.Repeat([]byte("content"), 100_000)
	for k := range plan.Partitions {
		p := &plan.Partitions[k]
		dir := sharedDirectory(t, trusted, p.Root())
		writer := w.client(w.access(identity.Client, "owner"))
		walk(t, writer, p.Root(), "shared")
		secret, err := writer.Create(t.Context(), user8, client.Name{Dir: dir, Name: "secret"}, 0o600, 0)
		require.NoError(t, err)
		_, err = writer.Write(t.Context(), user8, client.Write{Ino: secret.Ino, Data: content})
		require.NoError(t, err)
		again := w.client(w.operator())
		awaitContent(t, again, walk(t, again, p.Root(), "shared", "secret"), content)

		bound := w.client(w.access(identity.Client, "narrow"))
		walk(t, bound, p.Root(), "shared")
		own, err := bound.Create(t.Context(), user7, client.Name{Dir: dir, Name: "own"}, 0o600, 0)
		require.NoError(t, err)
		_, err = bound.Write(t.Context(), user7, client.Write{Ino: own.Ino, Data: content})
		require.NoError(t, err)
		reader := w.client(w.access(identity.Client, "narrow"))
		awaitContent(t, reader, walk(t, reader, p.Root(), "shared", "own"), content)

		owner.walk(p, "shared", "secret")
		id := owner.extents(p, secret.Ino, 0)[0].Block
		require.ErrorIs(t, getBy(t, reader, p, id, posix.BlockRight{}), block.ErrForbidden)
		thief.walk(p, "shared", "own")
		right := thief.extents(p, own.Ino, meta.ReturnRights)[0]
		require.ErrorIs(t, getBy(t, reader, p, id, right.Right), block.ErrForbidden)
		require.NoError(t, getBy(t, reader, p, right.Block, right.Right))
		store, err := reader.BlockStore(p.ID)
		require.NoError(t, err)
		require.ErrorIs(t, store.Put(t.Context(), block.New(id, []byte("other"))), block.ErrConflict)
		require.ErrorIs(t, store.Delete(t.Context(), []block.ID{id}), block.ErrForbidden)
		awaitContent(t, again, secret.Ino, content)
	}
}
