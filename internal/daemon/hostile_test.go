package daemon

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	clientask "github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// intruder sends protocol messages directly, with the certificate of a client for only one user.
type intruder struct {
	t       *testing.T
	access  *Access
	via     *transport.Client
	session uint64
	tickets map[posix.Ino]posix.Ticket
}

func newIntruder(w *world, session uint64) *intruder { return newBound(w, "narrow", 7, session) }

// newBound makes a certificate for one user, and an intruder that uses it.
func newBound(w *world, name string, user uint32, session uint64) *intruder {
	ca, err := identity.LoadCA(w.file.Certificates)
	require.NoError(w.t, err)
	narrow := []posix.IDs{{First: user, Last: user}}
	pair, err := ca.Issue(identity.Request{
		Role: identity.Client, Name: name, Authority: &posix.Authority{UIDs: narrow, GIDs: narrow},
	})
	require.NoError(w.t, err)
	files := identity.FilesIn(w.file.Certificates, identity.Client, name)
	require.NoError(w.t, pair.Save(files, false))
	a := w.access(identity.Client, name)
	cfg := a.network
	cfg.Credentials, err = identity.Load(files, quiet())
	require.NoError(w.t, err)
	i := &intruder{t: w.t, access: a, via: transport.Dial(cfg), session: session, tickets: map[posix.Ino]posix.Ticket{}}
	w.t.Cleanup(func() { require.NoError(w.t, i.via.Close()) })
	return i
}

// exchange sends a request to one replica with the tickets that the intruder has, and keeps those of the
// reply.
func (i *intruder) exchange(ctx context.Context, to multicast.ProcessID, q *clientask.Request) (clientask.Reply, error) {
	i.t.Helper()
	var c meta.Command
	if q.Kind == clientask.Query || q.Kind == clientask.Update {
		var err error
		c, err = meta.DecodeCommand(q.Command)
		require.NoError(i.t, err)
	}
	q.Ticketed, q.Tickets = true, nil
	for _, ino := range c.Named() {
		q.Tickets = append(q.Tickets, i.tickets[ino])
	}
	data, err := i.via.Call(ctx, to, q.Append(nil))
	if err != nil {
		return clientask.Reply{}, err
	}
	reply, err := clientask.DecodeReply(data)
	require.NoError(i.t, err)
	if len(reply.Tickets) > 0 {
		result, err := meta.DecodeResult(reply.Result)
		require.NoError(i.t, err)
		for k, ino := range meta.NewInodes(c.Op, c.Named(), &result) {
			i.tickets[ino] = reply.Tickets[k]
		}
	}
	return reply, nil
}

// query queries the first replica of a partition until a condition holds for the result.
func (i *intruder) query(p *topology.Partition, c meta.Command, until func(r *meta.Result) bool) (result meta.Result) {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		ctx, cancel := context.WithTimeout(i.t.Context(), 20*time.Second)
		defer cancel()
		reply, err := i.exchange(ctx, p.Replicas[0].Process, &clientask.Request{Kind: clientask.Query, Command: c.Append(nil)})
		if err != nil || reply.Status != clientask.Answered {
			return false
		}
		result, err = meta.DecodeResult(reply.Result)
		require.NoError(i.t, err)
		return until(&result)
	}, time.Minute, 10*time.Millisecond)
	return result
}

// walk looks up names below the root of a partition, which brings their tickets.
func (i *intruder) walk(p *topology.Partition, names ...string) (ino posix.Ino) {
	i.t.Helper()
	ino = p.Root()
	for _, name := range names {
		ino = i.query(p, meta.Command{Op: meta.OpLookup, Ino: ino, Name: name}, func(r *meta.Result) bool { return r.Code == posix.OK }).Attr.Ino
	}
	return ino
}

// walk looks up names below a directory as a client, until they are there.
func walk(t *testing.T, c *attach.Client, dir posix.Ino, names ...string) posix.Ino {
	t.Helper()
	for _, name := range names {
		require.Eventually(t, func() bool {
			a, err := c.Lookup(t.Context(), dir, name)
			if err == nil {
				dir = a.Ino
			}
			return err == nil
		}, time.Minute, 10*time.Millisecond)
	}
	return dir
}

// call sends a request to one replica and returns the outcome. The replica may leave the request unanswered.
func (i *intruder) call(to multicast.ProcessID, q *clientask.Request) (outcome clientask.Outcome, answered bool) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), 2*time.Second)
	defer cancel()
	q.Session = i.session
	reply, err := i.exchange(ctx, to, q)
	return reply.Status, err == nil
}

// forge sends requests with vectors that name nonexistent entries to all replicas of a partition.
func (i *intruder) forge(p *topology.Partition) {
	i.t.Helper()
	forged := make(clientask.Vector, 3)
	for k := range forged {
		forged[k] = clientask.Seen{Count: 1 << 62, OpenUpTo: 1 << 61, History: 1 << 40}
	}
	write := meta.Command{Op: meta.OpWrite, Ino: p.Root()}
	look := meta.Command{Op: meta.OpGetAttr, Ino: p.Root()}
	proofs := clientask.Proofs{{Vector: forged, Tag: make([]byte, 16)}}
	for _, r := range p.Replicas {
		i.call(r.Process, &clientask.Request{Kind: clientask.OpenSession, Command: i.access.Cluster().Identity()})
		for _, q := range []clientask.Request{
			{Kind: clientask.Update, Seq: 1, Vector: forged, Command: write.Append(nil)},
			{Kind: clientask.Update, Seq: 2, Proofs: proofs, Command: write.Append(nil)},
			{Kind: clientask.Update, Seq: 3, Vector: forged, Dest: []uint16{0, p.ID}, Command: write.Append(nil)},
			{Kind: clientask.RenewSession, Vector: forged},
			{Kind: clientask.Query, Vector: forged, Command: look.Append(nil)},
			{Kind: clientask.CloseSession, Proofs: proofs},
		} {
			outcome, answered := i.call(r.Process, &q)
			require.True(i.t, answered)
			require.Contains(i.t, []clientask.Outcome{clientask.Unproven, clientask.Refused}, outcome, "kind %d", q.Kind)
		}
		for _, kind := range []clientask.Kind{clientask.Update, clientask.Query, clientask.RenewSession} {
			q := clientask.Request{Kind: kind, Claim: forged[0], Command: look.Append(nil)}
			if kind == clientask.Update {
				q.Seq, q.Command = 4, write.Append(nil)
			}
			if outcome, answered := i.call(r.Process, &q); answered {
				require.NotEqual(i.t, clientask.Answered, outcome, "kind %d", q.Kind)
			}
		}
	}
}

// A client with a certificate for one user sends forged vectors. No partition stores them, so none asks the
// others for entries that never come: all clients and servers continue, also after a restart.
func TestForgedVectorsDisableNobody(t *testing.T) {
	w := newWorld(t, []topology.Region{"west", "east"}, 3)
	w.certify()
	w.startAll()
	a := w.operator()
	c := w.client(a)
	i := newIntruder(w, 4711)
	plan := a.Cluster()
	for k := 1; k < len(plan.Partitions); k++ {
		i.forge(&plan.Partitions[k])
	}
	requireQuick(t, plan, c, "a")
	requireQuick(t, plan, w.client(w.access(identity.Client, "laptop")), "b")
	for name := range w.file.Addresses {
		w.halt(name)
	}
	w.startAll()
	awaitHealthy(t, w.operator())
	requireQuick(t, plan, w.client(w.operator()), "c")
}

// requireQuick creates a file in each partition, moves it to the next one, and checks the time.
func requireQuick(t *testing.T, plan *topology.Cluster, c *attach.Client, name string) {
	t.Helper()
	start := time.Now()
	for k := range plan.Partitions {
		here, there := plan.Partitions[k].Root(), plan.Partitions[(k+1)%len(plan.Partitions)].Root()
		from := client.Name{Dir: here, Name: name}
		to := client.Name{Dir: there, Name: name + fmt.Sprint(k)}
		_, err := c.Create(t.Context(), posix.Cred{}, from, 0o644, 0)
		require.NoError(t, err)
		require.NoError(t, c.Rename(t.Context(), posix.Cred{}, from, to, 0))
		_, err = c.Lookup(t.Context(), there, to.Name)
		require.NoError(t, err)
	}
	require.Less(t, time.Since(start), 10*time.Second)
}
