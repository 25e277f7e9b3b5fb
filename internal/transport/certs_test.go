package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
)

// authority makes certificates for a test.
type authority struct {
	t   testing.TB
	dir string
	ca  *identity.CA
}

func newAuthority(t testing.TB, cluster string) *authority {
	ca, err := identity.NewCA(cluster, identity.CAValidity)
	require.NoError(t, err)
	a := &authority{t: t, dir: t.TempDir(), ca: ca}
	require.NoError(t, identity.SaveCA(a.dir, ca, false))
	return a
}

func (a *authority) issue(r identity.Request) *identity.Credentials {
	p, err := a.ca.Issue(r)
	require.NoError(a.t, err)
	files := identity.FilesIn(a.dir, r.Role, r.Name)
	require.NoError(a.t, p.Save(files, true))
	c, err := identity.Load(files, nil)
	require.NoError(a.t, err)
	return c
}

func (a *authority) server(name string) *identity.Credentials {
	return a.issue(identity.Request{Role: identity.Server, Name: name})
}

func (a *authority) client(name string, may *posix.Authority) *identity.Credentials {
	return a.issue(identity.Request{Role: identity.Client, Name: name, Authority: may})
}

func (a *authority) admin(name string) *identity.Credentials {
	return a.issue(identity.Request{Role: identity.Admin, Name: name})
}

// short makes the certificate of a client that expires soon.
func (a *authority) short(name string, validity time.Duration) *identity.Credentials {
	return a.issue(identity.Request{Role: identity.Client, Name: name, Authority: posix.Everybody(), Validity: validity})
}

// forge signs a certificate for an identity with the CA's key, without checks of the template.
func (a *authority) forge(id string, change func(*x509.Certificate)) tls.Certificate {
	ca, err := tls.LoadX509KeyPair(filepath.Join(a.dir, "ca.pem"), identity.CAFilesIn(a.dir).Key)
	require.NoError(a.t, err)
	uri, err := url.Parse(id)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{uri},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	change(template)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func asIs(*x509.Certificate) {}

// showing returns a TLS configuration that shows a certificate and accepts any peer.
func showing(c ...tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: c, NextProtos: []string{protocol}}
}
