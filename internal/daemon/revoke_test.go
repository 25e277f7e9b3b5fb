package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// When its certificate is revoked, a connected client is disconnected from each server, also after a restart.
// A new certificate of the same name is valid, and so are the certificates of others.
func TestRevoke(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	w.startAll()
	op := w.operator()
	laptop := w.access(identity.Client, "laptop")
	c := w.client(laptop)
	dir := laptop.Cluster().Partitions[0].Root()
	_, err := c.Create(t.Context(), posix.Cred{}, client.Name{Dir: dir, Name: "before"}, 0o644, 0)
	require.NoError(t, err)
	ask := func(name string, undo bool, role identity.Role) error {
		return op.Ask(t.Context(), "westa", &Request{Op: Revoke, Role: role, Server: name, Undo: undo}, &Changed{})
	}
	require.ErrorContains(t, laptop.Ask(t.Context(), "westa", &Request{Op: Revoke, Role: identity.Client, Server: "op"}, &Changed{}), "certificate of an admin")
	require.ErrorContains(t, ask("a/b", false, identity.Client), "letters, digits")
	require.ErrorContains(t, ask("laptop", false, "root"), "give client, admin or server")
	require.ErrorContains(t, ask("westa", false, identity.Server), "ask another server")
	require.ErrorContains(t, ask("laptop", true, identity.Client), "is not revoked")

	require.NoError(t, ask("laptop", false, identity.Client))
	refused := func() bool {
		for _, s := range laptop.Cluster().Servers {
			var d Description
			if askOf(t, laptop, s.Address, &d) == nil {
				return false
			}
		}
		return true
	}
	require.Eventually(t, refused, 5*time.Second, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = c.Lookup(ctx, dir, "after") // on open connections
	require.Error(t, err)
	require.NotErrorIs(t, err, posix.ENOENT)
	for name := range w.file.Addresses {
		w.halt(name)
	}
	w.startAll()
	require.True(t, refused(), "also after a restart, by the copy of the description")
	require.Len(t, w.operator().Revoked(), 1)

	ca, err := identity.LoadCA(w.file.Certificates)
	require.NoError(t, err)
	pair, err := ca.Issue(identity.Request{Role: identity.Client, Name: "laptop", Authority: posix.Everybody()})
	require.NoError(t, err)
	require.NoError(t, pair.Save(identity.FilesIn(w.file.Certificates, identity.Client, "laptop"), true))
	requireQuick(t, laptop.Cluster(), w.client(w.access(identity.Client, "laptop")), "renewed")
}

// askOf asks one server over a new connection.
func askOf(t *testing.T, a *Access, address string, d *Description) error {
	cfg := a.cfg
	cfg.Servers, cfg.Timeout = []string{address}, time.Second
	other, err := Connect(t.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, other.Close()) }()
	return ask(t.Context(), other.client, address, &Request{Op: Describe}, d)
}

// A server with a revoked certificate is refused by the others, and signs nothing.
func TestRevokeServer(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	w.startAll()
	m := newTamper(w)
	stolen := m.credentials(identity.Server, "westb")
	require.NoError(t, w.operator().Ask(t.Context(), "westa", &Request{Op: Revoke, Role: identity.Server, Server: "westb"}, &Changed{}))
	by, err := stolen.SignText(m.moved().YAML())
	require.NoError(t, err)
	m.put(by)
	m.awaitApart("westa", "was revoked at")
	_, err = Connect(t.Context(), AccessConfig{
		Servers: []string{w.file.Addresses["westa"]}, Timeout: time.Second, Logger: quiet(),
		Certificates: identity.FilesIn(w.file.Certificates, identity.Server, "westb"),
	})
	require.Error(t, err)
	requireQuick(t, w.operator().Cluster(), w.client(w.operator()), "others")
}
