package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is the minimum interval between the checks of handshakes for changed files.
const lookEvery = time.Second

// Credentials are the certificate and key that a process shows to peers, and the checks of the peers'
// certificates. They follow their files. All methods may be called from several goroutines.
type Credentials struct {
	files Files
	log   *slog.Logger

	revoked atomic.Pointer[[]Revocation] // nil: nothing was revoked

	mu        sync.Mutex
	loaded    *loaded   // in use
	checkedAt time.Time // time of the last check of the files
	stamps    []stamp   // state of the files at that time
}

// loaded is the content of the files. It is not changed once made.
type loaded struct {
	identity    Identity
	certificate tls.Certificate
	roots       *x509.CertPool
	authorities []*x509.Certificate // in roots
	vectorKeys  [][]byte
}

// stamp distinguishes versions of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// Load reads credentials. The certificate must contain the identity of this process and be valid now, by one
// of the CAs. logger receives warnings about new files that are broken; nil: no log.
func Load(files Files, logger *slog.Logger) (*Credentials, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Credentials{files: files, log: logger, checkedAt: time.Now(), stamps: stamps(files)}
	var err error
	if c.loaded, err = load(files); err != nil {
		return nil, err
	}
	if dir := filepath.Dir(files.CA); hasCAKey(dir) {
		logger.Warn("the key of the CA is in the directory of this process's certificates: whoever copies the directory can impersonate every process; "+
			"move the key and vector-generation to the directory DIR-ca beside that of 'globalfs certs', on a machine without servers and clients",
			"key", filepath.Join(dir, caKeyFile))
	}
	return c, nil
}

// load reads the files and checks that they belong together.
func load(files Files) (*loaded, error) {
	authorities, err := ReadCertificates(files.CA)
	if err != nil {
		return nil, err
	}
	pair, err := readPair(files)
	if err != nil {
		return nil, err
	}
	vectors, err := readVectorKeys(files.Key)
	if err != nil {
		return nil, err
	}
	l := &loaded{roots: x509.NewCertPool(), authorities: authorities, certificate: pair, vectorKeys: vectors}
	for _, c := range authorities {
		l.roots.AddCert(c)
	}
	if l.identity, err = FromCertificate(pair.Leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Certificate, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: the certificate has expired at %s: 'globalfs certs %s %s --renew' renews it",
			files.Certificate, date(pair.Leaf.NotAfter), l.identity.Role, l.identity.Name)
	} else if now.Before(pair.Leaf.NotBefore) {
		return nil, fmt.Errorf("%s: the certificate begins at %s: check the clock of this host", files.Certificate, date(pair.Leaf.NotBefore))
	}
	if err := l.verifyOwn(); err != nil {
		return nil, fmt.Errorf("%s, with the CA in %s: %w", files.Certificate, files.CA, err)
	}
	return l, nil
}

// verifyOwn checks the own certificate in the same way as peers.
func (l *loaded) verifyOwn() error {
	var chain []*x509.Certificate
	for _, der := range l.certificate.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		chain = append(chain, c)
	}
	err := l.verify(chain, x509.ExtKeyUsageClientAuth)
	if l.identity.Role == Server {
		err = errors.Join(err, l.verify(chain, x509.ExtKeyUsageServerAuth))
	}
	return err
}

// verify checks that a chain leads to one of the CAs.
func (l *loaded) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage) error {
	options := x509.VerifyOptions{Roots: l.roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err
}

// stamps returns the modification time and the size of each file, which show a change. A missing file has a
// zero stamp.
func stamps(files Files) []stamp {
	var all []stamp
	for _, path := range []string{files.CA, files.Certificate, files.Key} {
		var s stamp
		if info, err := os.Stat(path); err == nil {
			s = stamp{info.ModTime(), info.Size()}
		}
		all = append(all, s)
	}
	return all
}

// Identity returns the identity of this process.
func (c *Credentials) Identity() Identity { return c.current().identity }

// NotAfter returns the end of the own certificate. Callers warn their operators some time before.
func (c *Credentials) NotAfter() time.Time { return c.current().certificate.Leaf.NotAfter }

// current returns the loaded files. It checks the files first if the last check is at least lookEvery ago.
func (c *Credentials) current() *loaded {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checkedAt) < lookEvery {
		return c.loaded
	}
	c.checkedAt = time.Now()
	if seen := stamps(c.files); !slices.Equal(seen, c.stamps) {
		c.stamps = seen
		c.reload()
	}
	return c.loaded
}

// reload takes valid files into use. c.mu is held.
func (c *Credentials) reload() {
	next, err := load(c.files)
	if err == nil && (next.identity.Cluster != c.loaded.identity.Cluster || next.identity.Role != c.loaded.identity.Role) {
		err = fmt.Errorf("%s: it is of %s, this process is %s", c.files.Certificate, next.identity, c.loaded.identity)
	}
	if err != nil {
		c.log.Warn("new certificate files are broken, the old ones stay in use", "error", err, "until", c.loaded.certificate.Leaf.NotAfter)
		return
	}
	c.loaded = next
	c.log.Info("new certificate files are in use", "identity", next.identity.String(), "until", next.certificate.Leaf.NotAfter)
}

// ServerConfig returns the configuration of the called side, with protocols (ALPN): callers must show a
// certificate of the cluster, of any role.
func (c *Credentials) ServerConfig(protocols ...string) *tls.Config {
	forNext := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.current()
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{now.certificate},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    now.roots,
			NextProtos:   protocols,
			// Resumed sessions would not check certificates again; connections are few and long.
			SessionTicketsDisabled: true,
			VerifyConnection: func(state tls.ConnectionState) error {
				if _, err := now.peer(state); err != nil {
					return err
				}
				return c.CheckRevoked(state.PeerCertificates[0])
			},
		}, nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: forNext}
}

// ClientConfig returns the configuration of the calling side: a server of the cluster must answer.
func (c *Credentials) ClientConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.current().certificate, nil
		},
		// The host name is not checked (see the package); VerifyConnection checks all the rest.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			now := c.current()
			if len(state.PeerCertificates) == 0 {
				return errors.New("the server shows no certificate")
			}
			if err := now.verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth); err != nil {
				return err
			}
			switch peer, err := now.peer(state); {
			case err != nil:
				return err
			case peer.Role != Server:
				return fmt.Errorf("%s answers, which is not a server", peer)
			}
			return c.CheckRevoked(state.PeerCertificates[0])
		},
	}
}

// peer returns the identity of a peer with a verified chain.
func (l *loaded) peer(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, errors.New("the peer shows no certificate")
	}
	peer, err := FromCertificate(state.PeerCertificates[0])
	if err == nil && peer.Cluster != l.identity.Cluster {
		err = fmt.Errorf("%s is of another cluster than %s", peer, l.identity)
	}
	return peer, err
}
