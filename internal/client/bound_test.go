package client_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

var (
	alice = posix.Cred{UID: 1000, GID: 1000}
	bob   = posix.Cred{UID: 2000, GID: 2000}
)

// laptop returns a machine of Alice.
func laptop() *ask.Client {
	one := []posix.IDs{{First: 1000, Last: 1000}}
	return &ask.Client{Name: "laptop", Authority: &posix.Authority{UIDs: one, GIDs: one}}
}

// bound makes a client on a machine.
func bound(t *testing.T, n *clienttest.Network, from *ask.Client, region topology.Region) *client.Client {
	cfg := n.Config(region)
	cfg.Caller = n.Bound(from)
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// home makes a directory of a user in a partition, with a file that has content in blocks.
func home(t *testing.T, n *clienttest.Network, c *client.Client, partition uint16, of posix.Cred, name string) (dir, file posix.Ino) {
	ctx := t.Context()
	dir = mkdir(t, c, local(n, partition), name)
	file = create(t, c, dir, "f").Ino
	write(t, c, file, 0, bytes.Repeat([]byte(name), 4096))
	for _, ino := range []posix.Ino{dir, file} {
		_, err := c.SetAttr(ctx, root, ino, meta.SetUID|meta.SetGID, posix.Attr{UID: of.UID, GID: of.GID})
		require.NoError(t, err)
	}
	return dir, file
}

// walk makes a client look up the directory and the file of home, which gives it their tickets.
func walk(t *testing.T, n *clienttest.Network, c *client.Client, partition uint16, name string) {
	t.Helper()
	dir, err := c.Lookup(t.Context(), local(n, partition), name)
	require.NoError(t, err)
	_, err = c.Lookup(t.Context(), dir.Ino, "f")
	require.NoError(t, err)
}

// A client that is bound to users works on the files of its users, in one partition and over several, as any
// other.
func TestBoundClientWorks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, c, ctx := n.Client(t, west), bound(t, n, laptop(), west), t.Context()
		dir, file := home(t, n, admin, 1, alice, "alice")
		other, _ := home(t, n, admin, 2, alice, "alice")
		walk(t, n, c, 1, "alice")
		walk(t, n, c, 2, "alice")
		data := bytes.Repeat([]byte("x"), 10000)
		w, err := c.Write(ctx, alice, client.Write{Ino: file, Data: data})
		require.NoError(t, err)
		require.Equal(t, len(data), w.Bytes)
		require.Equal(t, data, read(t, c, file, 0, 10000))
		require.NoError(t, c.Rename(ctx, alice, at(dir, "f"), at(other, "g"), 0))
		require.EqualValues(t, 2, where(t, admin, file))
		require.Equal(t, data, read(t, c, file, 0, 10000))
		require.NoError(t, c.Rename(ctx, alice, at(other, "g"), at(other, "f"), meta.RenameExchange))

		require.NoError(t, c.Place(ctx, alice, dir, client.Placement{Region: ireland}))
		for range 2 {
			made, err := c.Create(ctx, alice, at(dir, "placed"), 0o644, meta.Exclusive)
			require.NoError(t, err)
			require.EqualValues(t, 3, made.Ino.Partition())
			require.EqualValues(t, 1000, made.UID)
			require.NoError(t, c.Unlink(ctx, alice, at(dir, "placed")))
		}
		sub, err := c.Mkdir(ctx, alice, at(dir, "sub"), 0o755)
		require.NoError(t, err)
		_, err = c.Link(ctx, alice, file, at(sub.Ino, "l"))
		require.NoError(t, err)
		require.NoError(t, c.Lock(ctx, client.LockRequest{Ino: file, Flock: true, Write: true}))
		require.NoError(t, c.SetXattr(ctx, alice, file, "user.a", []byte("1"), 0))
		n.Check(t)
	})
}

// An operation that a machine's users may not do fails and changes nothing, for every user that the machine
// claims.
func TestBoundClientIsBound(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, c, ctx := n.Client(t, west), bound(t, n, laptop(), west), t.Context()
		mine, own := home(t, n, admin, 2, alice, "alice")
		dir, file := home(t, n, admin, 1, bob, "bob")
		_, err := admin.SetAttr(ctx, root, file, meta.SetMode, posix.Attr{Mode: 0o600})
		require.NoError(t, err)
		before, err := admin.GetAttr(ctx, file)
		require.NoError(t, err)
		walk(t, n, c, 2, "alice")
		walk(t, n, c, 1, "bob")
		for _, as := range []posix.Cred{alice, bob, {}, posix.Nobody()} {
			for name, do := range map[string]func() error{
				"read":  func() error { _, err := c.Read(ctx, file, make([]byte, 9), 0); return err },
				"write": func() error { _, err := c.Write(ctx, as, client.Write{Ino: file, Data: []byte("x")}); return err },
				"write blocks": func() error {
					_, err := c.Write(ctx, as, client.Write{Ino: file, Data: make([]byte, 9000)})
					return err
				},
				"truncate":   func() error { _, err := c.SetAttr(ctx, as, file, meta.SetSize, posix.Attr{}); return err },
				"cut":        func() error { _, err := c.Create(ctx, as, at(dir, "f"), 0o600, meta.Truncate); return err },
				"chmod":      func() error { _, err := c.SetAttr(ctx, as, file, meta.SetMode, posix.Attr{Mode: 0o666}); return err },
				"chown":      func() error { _, err := c.SetAttr(ctx, as, own, meta.SetUID, posix.Attr{UID: 0}); return err },
				"unlink":     func() error { return c.Unlink(ctx, as, at(dir, "f")) },
				"create":     func() error { _, err := c.Create(ctx, as, at(dir, "new"), 0o600, meta.Exclusive); return err },
				"rename out": func() error { return c.Rename(ctx, as, at(dir, "f"), at(mine, "g"), 0) },
				"rename in":  func() error { return c.Rename(ctx, as, at(mine, "f"), at(dir, "g"), 0) },
				"replace":    func() error { return c.Rename(ctx, as, at(mine, "f"), at(dir, "f"), 0) },
				"link":       func() error { _, err := c.Link(ctx, as, file, at(mine, "l")); return err },
				"lock":       func() error { return c.Lock(ctx, client.LockRequest{Ino: file, Flock: true}) },
				"place":      func() error { return c.Place(ctx, as, dir, client.Placement{Region: ireland, Move: true}) },
				"xattr":      func() error { return c.SetXattr(ctx, as, file, "user.a", nil, 0) },
				"move":       func() error { _, err := c.Move(ctx, file, 2); return err },
				"scan":       func() error { _, _, err := c.Scan(ctx, 1, nil); return err },
				"placements": func() error { _, err := c.Placements(ctx); return err },
			} {
				err := do()
				require.True(t, err == posix.EACCES || err == posix.EPERM, "%s as %v: %v", name, as, err)
			}
		}
		after, err := admin.GetAttr(ctx, file)
		require.NoError(t, err)
		require.Equal(t, before, after)
		_, err = c.Mkdir(ctx, bob, at(mine, "as-bob"), 0o755)
		require.Equal(t, posix.EPERM, err)
		_, err = admin.SetAttr(ctx, root, mine, meta.SetMode, posix.Attr{Mode: 0o777})
		require.NoError(t, err)
		made, err := c.Mkdir(ctx, root, at(mine, "as-root"), 0o755)
		require.NoError(t, err)
		require.EqualValues(t, posix.NobodyID, made.UID, "root is squashed")
		require.EqualValues(t, posix.NobodyID, made.GID)
		n.Check(t)
	})
}

// The ids of blocks show every reader the session number of the writer. The number is of no use to the
// reader.
func TestSessionsOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, ctx := n.Client(t, west), t.Context()
		desk := bound(t, n, &ask.Client{Name: "desk", Authority: laptop().Authority}, west)
		dir, _ := home(t, n, admin, 1, alice, "alice")
		walk(t, n, desk, 1, "alice")
		made, err := desk.Create(ctx, alice, at(dir, "of-desk"), 0o644, meta.Exclusive)
		require.NoError(t, err)
		_, err = desk.Write(ctx, alice, client.Write{Ino: made.Ino, Data: make([]byte, 9000)})
		require.NoError(t, err)
		thief, to := n.Bound(laptop()), n.Processes(1, west)[0]
		tickets := map[posix.Ino]posix.Ticket{}
		send := func(q ask.Request) ask.Reply {
			var named []posix.Ino
			if q.Kind == ask.Query || q.Kind == ask.Update {
				cmd, err := meta.DecodeCommand(q.Command)
				require.NoError(t, err)
				named = cmd.Named()
			}
			q.Ticketed = true
			for _, ino := range named {
				q.Tickets = append(q.Tickets, tickets[ino])
			}
			answer, err := thief.Call(ctx, to, q.Append(nil))
			require.NoError(t, err)
			reply, err := ask.DecodeReply(answer)
			require.NoError(t, err)
			return reply
		}
		look := func(dir posix.Ino, name string) { // as the thief may: it is of the same user
			c := meta.Command{Op: meta.OpLookup, Ino: dir, Name: name}
			reply := send(ask.Request{Kind: ask.Query, Command: c.Append(nil)})
			result, err := meta.DecodeResult(reply.Result)
			require.NoError(t, err)
			require.Len(t, reply.Tickets, 1)
			tickets[result.Attr.Ino] = reply.Tickets[0]
		}
		look(local(n, 1), "alice")
		look(dir, "of-desk")
		extents := meta.Command{Op: meta.OpExtents, Ino: made.Ino, Length: 1 << 20}
		reply := send(ask.Request{Kind: ask.Query, Command: extents.Append(nil)})
		result, err := meta.DecodeResult(reply.Result)
		require.NoError(t, err)
		session := result.Extents[0].Block.Session()
		write := meta.Command{Op: meta.OpWrite, Ino: made.Ino, Data: []byte("x"), Length: 1}
		cross := meta.Command{Op: meta.OpUnlink, Cred: alice, Ino: dir, Name: "of-desk", Child: made.Ino}
		for _, q := range []ask.Request{
			{Kind: ask.OpenSession, Command: n.Plan.Identity()},
			{Kind: ask.Update, Seq: 1, Command: write.Append(nil)}, // answered already, to its owner
			{Kind: ask.Update, Seq: 900, Done: 899, Command: write.Append(nil)},
			{Kind: ask.Update, Seq: 900, Done: 899, Dest: []uint16{0, 1}, Command: cross.Append(nil)},
			{Kind: ask.RenewSession, Horizon: 1 << 60},
			{Kind: ask.CloseSession},
		} {
			q.Session = session
			require.Equal(t, ask.UnknownSession, send(q).Status, "%+v", q)
		}
		_, err = desk.Write(ctx, alice, client.Write{Ino: made.Ino, Data: make([]byte, 9000)})
		require.NoError(t, err, "its owner goes on")
		n.Check(t)
	})
}

// A machine that may be root is not bound.
func TestRootClient(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin := n.Client(t, west)
		c, ctx := bound(t, n, &ask.Client{Name: "server", Authority: posix.Everybody()}, west), t.Context()
		dir, file := home(t, n, admin, 1, bob, "bob")
		require.NoError(t, c.Place(ctx, alice, dir, client.Placement{Region: ireland}))
		made, err := c.Create(ctx, root, at(dir, "new"), 0o600, meta.Exclusive)
		require.NoError(t, err)
		require.EqualValues(t, 0, made.UID)
		_, err = c.SetAttr(ctx, root, file, meta.SetMode|meta.SetUID, posix.Attr{Mode: 0o4755})
		require.NoError(t, err)
		_, _, err = c.Scan(ctx, 1, nil)
		require.NoError(t, err)
		n.Check(t)
	})
}
