package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func TestParse(t *testing.T) {
	some := &posix.Authority{UIDs: []posix.IDs{{First: 33, Last: 33}, {First: 1000, Last: 1999}}, GIDs: []posix.IDs{{First: 100, Last: 100}}}
	for uri, want := range map[string]Identity{
		"globalfs://prod/server/n1":                               {Cluster: "prod", Role: Server, Name: "n1"},
		"globalfs://prod/admin/a.b_c-D":                           {Cluster: "prod", Role: Admin, Name: "a.b_c-D"},
		"globalfs://prod/client/web?uids=33,1000-1999&gids=100":   {Cluster: "prod", Role: Client, Name: "web", Authority: some},
		"globalfs://prod/client/nobody?uids=&gids=":               {Cluster: "prod", Role: Client, Name: "nobody", Authority: &posix.Authority{}},
		"globalfs://" + strings.Repeat("x", 63) + "/server/.-_.-": {Cluster: strings.Repeat("x", 63), Role: Server, Name: ".-_.-"},
	} {
		id, err := parse(uri)
		require.NoError(t, err, uri)
		require.Equal(t, want, id)
		require.Equal(t, uri, id.String())
	}
	unsorted, err := parse("globalfs://prod/client/web?uids=1000-1999,33&gids=100")
	require.NoError(t, err, "the order of the numbers is free")
	require.Equal(t, some, unsorted.Authority)
}

func TestParseRefuses(t *testing.T) {
	for uri, says := range map[string]string{
		"":                                                     "not of the form",
		"https://prod/server/n1":                               "not of the form",
		"globalfs:prod/server/n1":                              "not of the form",
		"globalfs://prod/server":                               "not of the form",
		"globalfs://prod/server/n1/":                           "not of the form",
		"globalfs://prod//server/n1":                           "not of the form",
		"globalfs:///server/n1":                                "cluster",
		"globalfs://prod:1/server/n1":                          "cluster",
		"globalfs://u@prod/server/n1":                          "cluster",
		"globalfs://prod/server/":                              "name",
		"globalfs://prod/server/n%31":                          "name",
		"globalfs://prod/server/n1#x":                          "name",
		"globalfs://prod/server/ü":                             "name",
		"globalfs://prod/server/n1\n":                          "name",
		"globalfs://prod/Server/n1":                            `no role "Server"`,
		"globalfs://prod/root/n1":                              `no role "root"`,
		"globalfs://prod//n1":                                  `no role ""`,
		"globalfs://prod/server/n1?uids=0":                     "must end with its name",
		"globalfs://prod/admin/n1?":                            "must end with its name",
		"globalfs://prod/client/c":                             "must end with ?uids",
		"globalfs://prod/client/c?":                            "must end with ?uids",
		"globalfs://prod/client/c?uids=1":                      "must end with ?uids",
		"globalfs://prod/client/c?gids=1":                      "must end with ?uids",
		"globalfs://prod/client/c?uids=-1&gids=1":              "give numbers",
		"globalfs://prod/client/c?uids=4294967296&gids=1":      "give numbers",
		"globalfs://prod/client/c?uids=1&gids=1&gids=0":        "give numbers",
		"globalfs://prod/client/c?uids=1&gids=1&uids=0":        "give numbers",
		"globalfs://prod/client/c?uids=1&uids=0&gids=1":        "give numbers",
		"globalfs://prod/client/c?uids=2-1&gids=1":             "give numbers",
		"globalfs://" + strings.Repeat("x", 64) + "/server/n1": "cluster",
	} {
		_, err := parse(uri)
		require.ErrorContains(t, err, says, "%q", uri)
	}
}

func TestFromCertificate(t *testing.T) {
	one, err := url.Parse("globalfs://prod/server/n1")
	require.NoError(t, err)
	id, err := FromCertificate(&x509.Certificate{URIs: []*url.URL{one}})
	require.NoError(t, err)
	require.Equal(t, Identity{Cluster: "prod", Role: Server, Name: "n1"}, id)
	for name, c := range map[string]*x509.Certificate{
		"none": {},
		"two":  {URIs: []*url.URL{one, one}},
		"CA":   {URIs: []*url.URL{one}, IsCA: true},
		"odd":  {URIs: []*url.URL{{}}},
	} {
		_, err := FromCertificate(c)
		require.Error(t, err, name)
	}
}

// An accepted text has one meaning only: the text of the parsed identity parses to the same identity.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"globalfs://prod/server/n1", "globalfs://prod/admin/a", "globalfs://prod/client/web?uids=33,1000-1999&gids=100",
		"globalfs://prod/client/x?uids=&gids=", "globalfs://prod/client/x?uids=1&gids=1&gids=2", "globalfs://p%2Fserver/server/n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		id, err := parse(uri)
		if err != nil {
			return
		}
		again, err := parse(id.String())
		require.NoError(t, err)
		require.Equal(t, id, again)
		require.Equal(t, id.Role == Client, id.Authority != nil)
	})
}

// Any certificate that x509 accepts, and any PEM file, is read or refused.
func FuzzCertificates(f *testing.F) {
	ca, err := NewCA("prod", CAValidity)
	require.NoError(f, err)
	p, err := ca.Issue(Request{Role: Client, Name: "c", Authority: posix.Everybody()})
	require.NoError(f, err)
	f.Add(p.Certificate)
	f.Add(p.Key)
	own, err := ca.Pair()
	require.NoError(f, err)
	f.Add(append(own.Certificate, p.Certificate...))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: []byte{0x30, 0x80}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseCertificates(data)
		if err != nil {
			return
		}
		require.NotEmpty(t, all)
		for _, c := range all {
			if id, err := FromCertificate(c); err == nil {
				require.NotEmpty(t, id.Name)
			}
		}
	})
}

// signed signs a template for an identity that does not fit it.
func signed(t *testing.T, ca *CA, template *x509.Certificate, id Identity) Pair {
	t.Helper()
	uri, err := url.Parse(id.String())
	require.NoError(t, err)
	template.URIs = []*url.URL{uri}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	require.NoError(t, err)
	p, err := encode(der, key)
	require.NoError(t, err)
	return p
}
