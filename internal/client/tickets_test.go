package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// private makes a directory of root that nobody else may search, with a directory and a file that are open to
// everybody by their own modes.
func private(t *testing.T, n *clienttest.Network, c *client.Client, partition uint16) (dir, sub, file posix.Ino) {
	dir = mkdir(t, c, local(n, partition), "private")
	sub, file = mkdir(t, c, dir, "sub"), create(t, c, dir, "file").Ino
	write(t, c, file, 0, make([]byte, 9000))
	require.NoError(t, c.SetXattr(t.Context(), root, file, "user.a", []byte("1"), 0))
	for ino, mode := range map[posix.Ino]posix.Mode{dir: 0o700, sub: 0o777, file: 0o666} {
		_, err := c.SetAttr(t.Context(), root, ino, meta.SetMode, posix.Attr{Mode: mode})
		require.NoError(t, err)
	}
	return dir, sub, file
}

// A bound client cannot use the number of an inode that it has only guessed, whatever the mode of the inode:
// no operation returns information about the inode, or changes it.
func TestGuessedInodeNumbers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, c, ctx := n.Client(t, west), bound(t, n, laptop(), west), t.Context()
		mine, own := home(t, n, admin, 2, alice, "alice")
		walk(t, n, c, 2, "alice")
		dir, sub, file := private(t, n, admin, 1)
		before, err := admin.GetAttr(ctx, file)
		require.NoError(t, err)
		guesses := map[string]func() error{
			"stat":              func() error { _, err := c.GetAttr(ctx, file); return err },
			"stat of directory": func() error { _, err := c.GetAttr(ctx, dir); return err },
			"stat of a number":  func() error { _, err := c.GetAttr(ctx, posix.MakeIno(1, 1<<40)); return err },
			"open":              func() error { _, err := c.Open(ctx, file); return err },
			"open unlinked":     func() error { _, err := c.OpenUnlinked(ctx, file); return err },
			"read":              func() error { _, err := c.Read(ctx, file, make([]byte, 9), 0); return err },
			"readlink":          func() error { _, err := c.Readlink(ctx, file); return err },
			"list":              func() error { _, _, err := c.ReadDir(ctx, sub, 0, 9); return err },
			"search":            func() error { _, err := c.Lookup(ctx, dir, "file"); return err },
			"parent":            func() error { _, err := c.Lookup(ctx, sub, ".."); return err },
			"xattr":             func() error { _, err := c.GetXattr(ctx, file, "user.a"); return err },
			"xattrs":            func() error { _, err := c.ListXattr(ctx, file); return err },
			"write":             func() error { _, err := c.Write(ctx, alice, client.Write{Ino: file, Data: []byte("x")}); return err },
			"write blocks": func() error {
				_, err := c.Write(ctx, alice, client.Write{Ino: file, Data: make([]byte, 9000)})
				return err
			},
			"truncate":    func() error { _, err := c.SetAttr(ctx, alice, file, meta.SetSize, posix.Attr{}); return err },
			"set xattr":   func() error { return c.SetXattr(ctx, alice, file, "user.a", nil, 0) },
			"lock":        func() error { return c.Lock(ctx, client.LockRequest{Ino: file, Flock: true}) },
			"link":        func() error { _, err := c.Link(ctx, alice, file, at(mine, "l")); return err },
			"create":      func() error { _, err := c.Create(ctx, alice, at(sub, "new"), 0o600, 0); return err },
			"unlink":      func() error { return c.Unlink(ctx, alice, at(sub, "f")) },
			"rename into": func() error { return c.Rename(ctx, alice, at(mine, "f"), at(sub, "f"), 0) },
			"rename from": func() error { return c.Rename(ctx, alice, at(sub, "f"), at(mine, "g"), 0) },
			"place":       func() error { return c.Place(ctx, alice, sub, client.Placement{Region: ireland}) },
		}
		for name, do := range guesses {
			require.Equal(t, posix.ESTALE, do(), name)
		}
		after, err := admin.GetAttr(ctx, file)
		require.NoError(t, err)
		require.Equal(t, before, after)

		_, err = admin.SetAttr(ctx, root, dir, meta.SetMode, posix.Attr{Mode: 0o755})
		require.NoError(t, err)
		c.Observe(admin.Proofs())
		found, err := c.Lookup(ctx, local(n, 1), "private")
		require.NoError(t, err)
		entries, _, err := c.ReadDir(ctx, found.Ino, 0, 9)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.NoError(t, guesses["stat"](), "a directory listing tells it")
		require.NoError(t, guesses["read"]())
		require.NoError(t, guesses["write"]())
		_, err = c.GetAttr(ctx, own)
		require.NoError(t, err)
		n.Check(t)
	})
}

// caller changes the requests of a client on their way, or answers them.
type caller struct {
	client.Caller
	change func(q *ask.Request) (answer *ask.Reply)
}

// Call implements client.Caller.
func (c caller) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	q, err := ask.DecodeRequest(request)
	if err != nil {
		return nil, err
	}
	if answer := c.change(&q); answer != nil {
		return answer.Append(nil), nil
	}
	return c.Caller.Call(ctx, to, q.Append(nil))
}

// clientOf makes a client with the requests of change.
func clientOf(t *testing.T, n *clienttest.Network, via client.Caller, change func(q *ask.Request) *ask.Reply) *client.Client {
	cfg := n.Config(west)
	cfg.Caller = caller{via, change}
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A ticket is valid for one inode and one client. An inode that is the child of a name in an update also
// needs a ticket. A renewal returns no ticket for an inode that the client has only guessed.
func TestTicketsOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, ctx := n.Client(t, west), t.Context()
		mine, own := home(t, n, admin, 1, alice, "alice")
		_, _, file := private(t, n, admin, 1)
		shown := map[posix.Ino]posix.Ticket{}
		swap := func(q *ask.Request) *ask.Reply {
			if q.Kind == ask.Query || q.Kind == ask.Update {
				cmd, err := meta.DecodeCommand(q.Command)
				require.NoError(t, err)
				for i, ino := range cmd.Named() {
					if len(q.Tickets) > 0 && q.Tickets[i] == (posix.Ticket{}) {
						q.Tickets[i] = shown[ino]
					} else if len(q.Tickets) > 0 {
						shown[ino] = q.Tickets[i]
					}
				}
			}
			return nil
		}
		desk := &ask.Client{Name: "desk", Authority: laptop().Authority}
		c := clientOf(t, n, n.Bound(desk), swap)
		walk(t, n, c, 1, "alice")
		_, err := c.GetAttr(ctx, own)
		require.NoError(t, err)
		shown[file] = shown[own]
		_, err = c.GetAttr(ctx, file)
		require.Equal(t, posix.ESTALE, err, "the ticket of another inode")

		thief := clientOf(t, n, n.Bound(laptop()), swap)
		_, err = thief.Lookup(ctx, local(n, 1), "alice") // it has a ticket, but not for the file
		require.NoError(t, err)
		_, err = thief.GetAttr(ctx, own)
		require.Equal(t, posix.ESTALE, err, "the ticket of another client")
		require.NoError(t, thief.Hold(file))
		require.NoError(t, thief.OpenPartition(ctx, 1))
		time.Sleep(2 * client.DefaultRenew) // fake time
		_, err = thief.GetAttr(ctx, file)
		require.Equal(t, posix.ESTALE, err, "a renewal brings no ticket for a number that it did not show one for")

		cmd := meta.Command{Op: meta.OpUnlink, Cred: alice, Ino: mine, Name: "none", Child: file}
		q := ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Dest: []uint16{0, 1}, Ticketed: true, Command: cmd.Append(nil)}
		q.Tickets = []posix.Ticket{shown[mine], shown[file]}
		data, err := n.Bound(desk).Call(ctx, n.Processes(1, west)[0], q.Append(nil))
		require.NoError(t, err)
		reply, err := ask.DecodeReply(data)
		require.NoError(t, err)
		result, err := meta.DecodeResult(reply.Result)
		require.NoError(t, err)
		require.Equal(t, posix.ESTALE, result.Code, "the inode of a name needs a ticket, too")
	})
}

// rotate gives all replicas new keys.
func rotate(n *clienttest.Network, keys ask.Keys) {
	for p := range n.Plan.Partitions {
		n.SetVectorKeys(keys, n.Processes(uint16(p), west)...)
	}
}

// A client can use open files after any number of changes of the keys, and all other inodes after one change.
// After two changes a new lookup returns new tickets.
func TestTicketsAcrossRotations(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, c, ctx := n.Client(t, west), bound(t, n, laptop(), west), t.Context()
		dir, file := home(t, n, admin, 1, alice, "alice")
		walk(t, n, c, 1, "alice")
		opened, err := c.Create(ctx, alice, at(dir, "open"), 0o644, 0)
		require.NoError(t, err)
		keys := []string{"of the network", "second", "third", "fourth"}
		for i := 1; i < len(keys); i++ {
			now := ask.Keys{[]byte(keys[i]), []byte(keys[i-1])}
			half := n.Processes(1, west)
			n.SetVectorKeys(now, half[0]) // the others follow: both accept what the other gives
			for range 2 {
				for _, down := range half[:2] {
					n.Fail(clienttest.Down, down)
					_, err = c.GetAttr(ctx, dir)
					require.NoError(t, err)
					_, err = c.Lookup(ctx, dir, "f")
					require.NoError(t, err)
					n.Fail(clienttest.None, down)
				}
			}
			rotate(n, now)
			_, err = c.GetAttr(ctx, dir)
			require.NoError(t, err, "what is used after each change stays known")
			time.Sleep(2 * client.DefaultRenew) // fake time
		}
		require.Equal(t, "", string(read(t, c, opened.Ino, 0, 3)))
		_, err = c.Write(ctx, alice, client.Write{Ino: opened.Ino, Data: []byte("new")})
		require.NoError(t, err)
		rotate(n, ask.Keys{[]byte("fifth"), []byte("fourth")})
		rotate(n, ask.Keys{[]byte("sixth"), []byte("fifth")})
		_, err = c.GetAttr(ctx, file)
		require.Equal(t, posix.ESTALE, err)
		time.Sleep(2 * client.DefaultRenew) // fake time
		_, err = c.Write(ctx, alice, client.Write{Ino: opened.Ino, Data: []byte("newer")})
		require.NoError(t, err, "the session holds it: a renewal has brought a new ticket")
		walk(t, n, c, 1, "alice")
		_, err = c.GetAttr(ctx, file)
		require.NoError(t, err)
	})
}

// A client that continues another one has its tickets, also after a crash.
func TestTicketsOfAState(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, ctx := n.Client(t, west), t.Context()
		_, file := home(t, n, admin, 1, alice, "alice")
		for _, state := range []func(c *client.Client) *client.State{(*client.Client).Suspend, (*client.Client).Snapshot} {
			c := bound(t, n, laptop(), west)
			walk(t, n, c, 1, "alice")
			s := through(t, state(c))
			cfg := n.Config(west)
			cfg.Caller, cfg.Resume = n.Bound(laptop()), s
			next, err := client.New(cfg)
			require.NoError(t, err)
			_, err = next.GetAttr(ctx, file)
			require.NoError(t, err)
			require.NoError(t, next.Close())
			s.Tickets += "A"
			_, err = client.New(cfg)
			require.ErrorContains(t, err, "tickets")
		}
	})
}

// A bound client of a version before tickets is refused with the remedy. A client of this version works with
// servers of such a version, and goes on when they are upgraded.
func TestTicketsOfOtherVersions(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		admin, ctx := n.Client(t, west), t.Context()
		_, file := home(t, n, admin, 1, alice, "alice")
		old := ask.Request{Kind: ask.Query, Command: (&meta.Command{Op: meta.OpGetAttr, Ino: posix.Root}).Append(nil)}
		data, err := n.Bound(laptop()).Call(ctx, n.Processes(0, west)[0], old.Append(nil))
		require.NoError(t, err)
		reply, err := ask.DecodeReply(data)
		require.NoError(t, err)
		require.Equal(t, ask.Refused, reply.Status)
		require.Contains(t, string(reply.Result), "inode_tickets: optional")

		upgraded := false
		c := clientOf(t, n, n.Bound(laptop()), func(q *ask.Request) *ask.Reply {
			if upgraded || q.Kind != ask.Query && q.Kind != ask.Update && q.Kind != ask.RenewSession {
				return nil
			}
			if q.Ticketed {
				return &ask.Reply{Status: ask.Refused, Result: []byte(ask.Malformed)}
			}
			q.Ticketed = true // as far as the replicas of this version are concerned
			return nil
		})
		_, err = c.GetAttr(ctx, posix.Root)
		require.NoError(t, err)
		upgraded = true
		walk(t, n, c, 1, "alice")
		_, err = c.GetAttr(ctx, file)
		require.NoError(t, err)
	})
}

// The reason by which a client recognizes a server before tickets is that of a request with further bytes.
func TestReasonOfMalformedRequests(t *testing.T) {
	_, err := ask.DecodeRequest(append((&ask.Request{Kind: ask.AskStatus}).Append(nil), 9))
	require.EqualError(t, err, ask.Malformed)
	require.False(t, strings.Contains(ask.Malformed, "%"))
}
