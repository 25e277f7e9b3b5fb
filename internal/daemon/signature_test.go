package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
	"github.com/globalfs/globalfs/internal/topology"
)

// tamper is an attacker with write access to etcd.
type tamper struct {
	t *testing.T
	w *world
	r *registry.Etcd
}

func newTamper(w *world) *tamper {
	r, err := openRegistry(&w.file, quiet())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, r.Close()) })
	return &tamper{t: w.t, w: w, r: r}
}

func (m *tamper) load() registry.Document {
	d, err := m.r.Load(m.t.Context())
	require.NoError(m.t, err)
	return d
}

func (m *tamper) put(text []byte) {
	_, err := m.r.Swap(m.t.Context(), m.load().Version, text)
	require.NoError(m.t, err)
}

// credentials returns the credentials of a process.
func (m *tamper) credentials(role identity.Role, name string) *identity.Credentials {
	c, err := identity.Load(identity.FilesIn(m.w.file.Certificates, role, name), nil)
	require.NoError(m.t, err)
	return c
}

// moved returns the description with westb at another address and with a higher version.
func (m *tamper) moved() *topology.Spec {
	spec, err := topology.ParseSpec(m.load().Value)
	require.NoError(m.t, err)
	spec.Version += 10
	spec.Relocate("westb", registrytest.FreeAddress(m.t))
	return &spec
}

// awaitApart waits until a server reports an error of the registry with these words; "": until it reports
// none.
func (m *tamper) awaitApart(name, words string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		why := m.w.running[name].apart.Load()
		return words == "" && why == nil || words != "" && why != nil && bytes.Contains([]byte(*why), []byte(words))
	}, 60*time.Second, 50*time.Millisecond, words)
}

// A writer of etcd cannot change the cluster: no server adopts an unsigned description or an older one. A
// server with a copy starts with the copy, and a new server does not start.
func TestEtcdCannotChangeTheCluster(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	w.startAll()
	m := newTamper(w)
	good := m.load()
	signature := good.Value[bytes.Index(good.Value, []byte("# signed-by")):]
	byLaptop, err := m.credentials(identity.Client, "laptop").SignText(m.moved().YAML())
	require.NoError(t, err)
	byAdmin, err := m.credentials(identity.Admin, "op").SignText(m.moved().YAML())
	require.NoError(t, err)
	a := w.operator()
	for what, text := range map[string][]byte{
		"unsigned":                 m.moved().YAML(),
		"another text's signature": append(m.moved().YAML(), signature...),
		"by a client":              byLaptop,
		"by an admin":              byAdmin,
	} {
		m.put(text)
		err := a.Ask(t.Context(), "westa", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &Changed{})
		require.ErrorContains(t, err, "may have been changed in etcd", what)
	}
	m.awaitApart("westa", "may have been changed in etcd")
	m.put(good.Value)
	m.awaitApart("westa", "")
	for _, name := range []string{"westa", "westb", "westc"} {
		require.Equal(t, w.file.Addresses["westb"], w.running[name].known.current.Load().cluster.Server("westb").Address)
	}
}

// A server starts with its copy if etcd shows another description, and a new server does not start. An older
// description is refused too, even if a server has signed it.
func TestStartWithAChangedEtcd(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	w.startAll()
	m := newTamper(w)
	first := m.load().Value
	require.NoError(t, w.operator().Ask(t.Context(), "", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &Changed{}))
	joined := m.load().Value
	m.put(first)
	m.awaitApart("westa", errRegistryLost.Error())
	w.halt("westa")
	w.start("westa")
	require.Equal(t, uint64(2), w.running["westa"].known.current.Load().spec.Version)

	m.put(m.moved().YAML())
	w.halt("westa")
	w.start("westa")
	require.Equal(t, w.file.Addresses["westb"], w.running["westa"].known.current.Load().cluster.Server("westb").Address)
	fresh := w.file
	fresh.DataDir = t.TempDir()
	w.halt("westc")
	_, err := w.tryStart(t.Context(), "westc", fresh)
	require.ErrorIs(t, err, identity.ErrSignature)
	require.ErrorContains(t, err, "docs/operations.md")

	// The recipe of docs/operations.md: a server's copy is put back.
	copied, err := os.ReadFile(filepath.Join(w.dir("westa"), specFile))
	require.NoError(t, err)
	require.Equal(t, joined, copied)
	m.put(copied)
	m.awaitApart("westa", "")
	w.start("westc")
	require.Equal(t, uint64(2), w.running["westc"].known.current.Load().spec.Version)
}

// The first server that starts with this version signs the description of a cluster that an older version
// made. The same happens after the replacement of the CA.
func TestDescriptionIsSignedLater(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	w.certify()
	w.startAll()
	m := newTamper(w)
	signed := m.load().Value
	w.halt("westa")
	spec := signed[:bytes.Index(signed, []byte("# signed-by"))]
	m.put(spec)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir("westa"), specFile), spec, 0o600))
	w.start("westa")
	text, by, err := m.credentials(identity.Admin, "op").VerifyText(m.load().Value)
	require.NoError(t, err)
	require.Equal(t, spec, text)
	require.Equal(t, "westa", by.Name)
	w.halt("westa")
	before := m.load().Value

	w.certify() // by another CA
	_, _, err = m.credentials(identity.Admin, "op").VerifyText(before)
	require.ErrorContains(t, err, "not of a CA that this process trusts")
	w.start("westa")
	_, _, err = m.credentials(identity.Admin, "op").VerifyText(m.load().Value)
	require.NoError(t, err)
}

// A server with a certificate that the description revokes does not write a description. A new certificate is
// valid.
func TestRevokedServerDoesNotWrite(t *testing.T) {
	ca, err := identity.NewCA("prod", identity.CAValidity)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, identity.SaveCA(dir, ca, false))
	pair, err := ca.Issue(identity.Request{Role: identity.Server, Name: "westb"})
	require.NoError(t, err)
	files := identity.FilesIn(dir, identity.Server, "westb")
	require.NoError(t, pair.Save(files, false))
	credentials, err := identity.Load(files, quiet())
	require.NoError(t, err)
	var d description
	s := signature{&Server{credentials: credentials}}
	require.NoError(t, s.mayWrite(&d))
	d.spec.Revoke(topology.Revocation{Role: string(identity.Server), Name: "westb", At: time.Now().Add(-time.Hour)})
	require.NoError(t, s.mayWrite(&d), "it was made later")
	d.spec.Pardon(string(identity.Server), "westb")
	d.spec.Revoke(topology.Revocation{Role: string(identity.Server), Name: "westb", At: time.Now().Add(time.Minute)})
	require.ErrorContains(t, s.mayWrite(&d), "'globalfs certs server westb --renew' makes a new one")
}
