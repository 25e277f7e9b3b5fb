package identity

import (
	"bytes"
	"crypto/tls"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/test/bubble"
)

// newCA makes a CA in dir.
func newCA(t *testing.T, dir, cluster string) *CA {
	t.Helper()
	ca, err := NewCA(cluster, CAValidity)
	require.NoError(t, err)
	require.NoError(t, SaveCA(dir, ca, false))
	return ca
}

// issue writes a certificate of ca to dir.
func issue(t *testing.T, ca *CA, dir string, r Request) Files {
	t.Helper()
	if r.Role == Client && r.Authority == nil {
		r.Authority = posix.Everybody()
	}
	p, err := ca.Issue(r)
	require.NoError(t, err)
	f := FilesIn(dir, r.Role, r.Name)
	require.NoError(t, p.Save(f, true))
	return f
}

func mustLoad(t *testing.T, f Files, log *slog.Logger) *Credentials {
	t.Helper()
	c, err := Load(f, log)
	require.NoError(t, err)
	return c
}

// shake makes a handshake, sends a byte each way, and returns the errors of both ends.
func shake(t *testing.T, server, client *tls.Config) (atServer, atClient error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	exchange := func(c *tls.Conn) error {
		defer func() { _ = c.NetConn().Close() }()
		if err := c.Handshake(); err != nil {
			return err
		}
		var one [1]byte
		return firstError(func() error { _, err := c.Write(one[:]); return err }, func() error { _, err := io.ReadFull(c, one[:]); return err })
	}
	go func() { done <- exchange(tls.Server(a, server)) }()
	c := tls.Client(b, client)
	defer func() { _ = b.Close() }()
	err := firstError(c.Handshake,
		func() error { _, err := io.ReadFull(c, make([]byte, 1)); return err },
		func() error { _, err := c.Write([]byte{1}); return err })
	_ = b.Close()
	return <-done, err
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs [prod]")
	ca := newCA(t, dir, "prod")
	f := issue(t, ca, dir, Request{Role: Server, Name: "n1", Hosts: []string{"n1.example.org", "10.0.0.1", "::1"}})
	for path, mode := range map[string]fs.FileMode{
		dir: 0o700 | fs.ModeDir, f.CA: 0o644, CAFilesIn(dir).Key: 0o600, f.Certificate: 0o644, f.Key: 0o600,
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), path)
	}
	require.ErrorIs(t, SaveCA(dir, ca, false), fs.ErrExist)
	p, err := ca.Issue(Request{Role: Server, Name: "n1"})
	require.NoError(t, err)
	require.ErrorIs(t, p.Save(f, false), fs.ErrExist)
	left, err := filepath.Glob(filepath.Join(t.TempDir(), "*", ".new-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	found, err := Find(dir, Server, "")
	require.NoError(t, err)
	require.Equal(t, f, found)
	_, err = Find(dir, Client, "")
	require.ErrorContains(t, err, "'globalfs certs client NAME' makes one")
	issue(t, ca, dir, Request{Role: Server, Name: "n2"})
	_, err = Find(dir, Server, "")
	require.ErrorContains(t, err, "n1, n2")

	read, err := ReadCertificates(f.Certificate)
	require.NoError(t, err)
	leaf := read[0]
	require.NoError(t, leaf.VerifyHostname("n1.example.org"))
	require.NoError(t, leaf.VerifyHostname("10.0.0.1"))
	require.Equal(t, 365, int(time.Until(leaf.NotAfter)/(24*time.Hour)+1))
}

func TestLoadCA(t *testing.T) {
	dir := t.TempDir()
	_, err := LoadCA(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	newCA(t, dir, "prod")
	ca, err := LoadCA(dir)
	require.NoError(t, err)
	require.Equal(t, "prod", ca.Cluster())
	a := issue(t, ca, dir, Request{Role: Client, Name: "a", Validity: 2 * CAValidity})
	c := mustLoad(t, a, nil)
	require.Equal(t, ca.NotAfter(), c.NotAfter(), "no longer than the CA")
	next, err := ca.Renewed(CAValidity + time.Hour)
	require.NoError(t, err)
	require.NoError(t, SaveCA(dir, next, true))
	mustLoad(t, a, nil) // signed by the same key
	other, err := NewCA("prod", CAValidity)
	require.NoError(t, err)
	p, err := other.Pair()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(CAFilesIn(dir).Key, p.Key, 0o600))
	_, err = LoadCA(dir)
	require.ErrorContains(t, err, "private key does not match")
}

func TestIssueRefuses(t *testing.T) {
	_, err := NewCA("no/slash", CAValidity)
	require.ErrorContains(t, err, "cluster")
	ca, err := NewCA("prod", CAValidity)
	require.NoError(t, err)
	for message, r := range map[string]Request{
		"no role":                {Role: "root", Name: "x"},
		"not of the form":        {Role: Server, Name: "a/b"},
		"must not end in -key":   {Role: Server, Name: "a-key"},
		"must end with ?uids":    {Role: Client, Name: "c"},
		"must end with its name": {Role: Admin, Name: "c", Authority: posix.Everybody()},
		"without a port":         {Role: Server, Name: "a", Hosts: []string{"h:1"}},
		"names no hosts":         {Role: Admin, Name: "a", Hosts: []string{"h"}},
		"give a positive one":    {Role: Admin, Name: "a", Validity: -1},
	} {
		_, err := ca.Issue(r)
		require.ErrorContains(t, err, message)
	}
	old, err := NewCA("prod", -time.Minute)
	require.NoError(t, err)
	_, err = old.Issue(Request{Role: Admin, Name: "a"})
	require.ErrorContains(t, err, "certs init --renew")
}

func TestSerialsDiffer(t *testing.T) {
	dir := t.TempDir()
	ca := newCA(t, dir, "prod")
	seen := map[string]bool{}
	for range 10 {
		read, err := ReadCertificates(issue(t, ca, dir, Request{Role: Admin, Name: "a"}).Certificate)
		require.NoError(t, err)
		leaf := read[0]
		require.Greater(t, leaf.SerialNumber.BitLen(), 64)
		seen[leaf.SerialNumber.String()] = true
	}
	require.Len(t, seen, 10)
}

func TestLoadRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ca := newCA(t, dir, "prod")
		f := issue(t, ca, dir, Request{Role: Server, Name: "n1", Validity: time.Hour})
		mine := mustLoad(t, f, nil)
		require.Equal(t, Identity{Cluster: "prod", Role: Server, Name: "n1"}, mine.Identity())
		b := issue(t, ca, dir, Request{Role: Admin, Name: "b"})
		elsewhere := t.TempDir()
		newCA(t, elsewhere, "prod")
		for message, files := range map[string]Files{
			"no such file":                {CA: f.CA, Certificate: f.Certificate, Key: "/nowhere"},
			"'globalfs certs' makes":      {CA: "/nowhere", Certificate: f.Certificate, Key: f.Key},
			"does not match":              {CA: f.CA, Certificate: f.Certificate, Key: b.Key},
			"a private key, not":          {CA: f.Key, Certificate: f.Certificate, Key: f.Key},
			"not a file with":             {CA: dir, Certificate: f.Certificate, Key: f.Key},
			"of a CA, not of a process":   CAFilesIn(dir),
			"signed by unknown authority": {CA: filepath.Join(elsewhere, "ca.pem"), Certificate: f.Certificate, Key: f.Key},
		} {
			_, err := Load(files, nil)
			require.ErrorContains(t, err, message)
		}
		time.Sleep(2 * time.Hour)
		_, err := Load(f, nil)
		require.ErrorContains(t, err, "has expired")
		require.ErrorContains(t, err, "'globalfs certs server n1 --renew' renews it")
	})
}

func TestHandshakes(t *testing.T) {
	dir, other, rogue := t.TempDir(), t.TempDir(), t.TempDir()
	ca := newCA(t, dir, "prod")
	server := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "s"}), nil)
	client := mustLoad(t, issue(t, ca, dir, Request{Role: Client, Name: "c"}), nil)
	admin := mustLoad(t, issue(t, ca, dir, Request{Role: Admin, Name: "a"}), nil)
	foreign := mustLoad(t, issue(t, newCA(t, rogue, "prod"), rogue, Request{Role: Server, Name: "s"}), nil)
	// A certificate of another cluster by the same CA.
	twin := &CA{cluster: "test", certificate: ca.certificate, key: ca.key}
	require.NoError(t, SaveCA(other, ca, false))
	neighbour := mustLoad(t, issue(t, twin, other, Request{Role: Server, Name: "s"}), nil)

	for _, peer := range []*Credentials{server, client, admin} {
		atServer, atClient := shake(t, server.ServerConfig(), peer.ClientConfig())
		require.NoError(t, atServer)
		require.NoError(t, atClient)
	}
	for name, c := range map[string]struct {
		server, client *tls.Config
		says           string
	}{
		"no certificate":   {server.ServerConfig(), &tls.Config{InsecureSkipVerify: true}, "client didn't provide a certificate"},
		"another CA":       {server.ServerConfig(), withCertificate(foreign), "unknown authority"},
		"another cluster":  {server.ServerConfig(), withCertificate(neighbour), "of another cluster"},
		"TLS 1.2":          {server.ServerConfig(), oldTLS(client), "unsupported versions"},
		"server: other CA": {foreign.ServerConfig(), client.ClientConfig(), "unknown authority"},
		"server: cluster":  {neighbour.ServerConfig(), client.ClientConfig(), "of another cluster"},
		"server: client":   {client.ServerConfig(), server.ClientConfig(), "incompatible key usage"},
		"server: admin":    {admin.ServerConfig(), server.ClientConfig(), "incompatible key usage"},
	} {
		atServer, atClient := shake(t, c.server, c.client)
		require.Error(t, atServer, name)
		require.Error(t, atClient, name)
		require.Contains(t, atServer.Error()+atClient.Error(), c.says, name)
	}
}

// A certificate with a server's key usage but a client's identity.
func TestClientWithServerUsage(t *testing.T) {
	dir := t.TempDir()
	ca := newCA(t, dir, "prod")
	template, err := ca.template(Identity{Cluster: "prod", Role: Server, Name: "x"}, Request{Role: Server})
	require.NoError(t, err)
	id := Identity{Cluster: "prod", Role: Client, Name: "x", Authority: posix.Everybody()}
	forged := signed(t, ca, template, id)
	server := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "s"}), nil)
	require.NoError(t, forged.Save(FilesIn(dir, Client, "x"), false))
	_, atClient := shake(t, mustLoad(t, FilesIn(dir, Client, "x"), nil).ServerConfig(), server.ClientConfig())
	require.ErrorContains(t, atClient, "which is not a server")
}

// withCertificate shows a certificate to any peer.
func withCertificate(c *Credentials) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{c.loaded.certificate}}
}

func oldTLS(c *Credentials) *tls.Config {
	config := withCertificate(c)
	config.MaxVersion = tls.VersionTLS12
	return config
}

// Long-lived credentials with an expired certificate get no connection, at either end.
func TestExpiredHandshakes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ca := newCA(t, dir, "prod")
		server := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "s"}), nil)
		client := mustLoad(t, issue(t, ca, dir, Request{Role: Client, Name: "c", Validity: time.Hour}), nil)
		short := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "short", Validity: time.Hour}), nil)
		time.Sleep(2 * time.Hour)
		atServer, _ := shake(t, server.ServerConfig(), client.ClientConfig())
		require.ErrorContains(t, atServer, "expired")
		_, atClient := shake(t, short.ServerConfig(), server.ClientConfig())
		require.ErrorContains(t, atClient, "expired")
	})
}

// New files are used by the next handshakes; broken files are not, and the log reports them once.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	ca := newCA(t, dir, "prod")
	f := issue(t, ca, dir, Request{Role: Client, Name: "c"})
	var log bytes.Buffer
	c := mustLoad(t, f, slog.New(slog.NewTextHandler(&log, nil)))
	look := func() Identity {
		c.mu.Lock()
		c.checkedAt = c.checkedAt.Add(-lookEvery) // a second later
		c.mu.Unlock()
		return c.Identity()
	}
	before := look()
	require.Empty(t, log.String())

	issue(t, ca, dir, Request{Role: Client, Name: "c", Authority: &posix.Authority{}, Validity: time.Hour})
	end := c.NotAfter()
	require.Greater(t, time.Until(end), time.Hour, "it does not look more often than once a second")
	require.NotEqual(t, before, look())
	require.Less(t, time.Until(c.NotAfter()), time.Hour)
	require.Contains(t, log.String(), "new certificate files are in use")

	log.Reset()
	good, err := os.ReadFile(f.Certificate)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.Certificate, good[:len(good)/2], 0o600))
	require.Empty(t, look().Authority.UIDs, "the last good one")
	look()
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("stay in use")), "%s", &log)
	server := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "s"}), nil)
	_, err = shake(t, server.ServerConfig(), c.ClientConfig())
	require.NoError(t, err)

	p, err := ca.Issue(Request{Role: Server, Name: "s"})
	require.NoError(t, err)
	require.NoError(t, p.Save(f, true))
	require.Equal(t, Client, look().Role, "who one is does not change so")
}
