package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
)

const (
	// CAValidity is the default validity of a CA.
	CAValidity = 10 * 365 * 24 * time.Hour
	// LeafValidity is the default validity of the certificates of processes.
	LeafValidity = 365 * 24 * time.Hour
	// skew is the time by which the validity of a certificate begins before now: the clocks of hosts differ.
	skew = time.Hour
	// organization is in the subject of all certificates that this package makes.
	organization = "GlobalFS"
)

// CA is the certificate authority of one cluster. It is not changed once made.
type CA struct {
	cluster     string
	certificate *x509.Certificate
	key         crypto.Signer
	generation  int // of the vector keys
}

// Pair is a certificate and its key, both as PEM.
type Pair struct{ Certificate, Key []byte }

// Request describes a certificate to issue.
type Request struct {
	Role Role
	Name string
	// Authority has the users and groups that a client may act for; nil for other roles.
	Authority *posix.Authority
	// Hosts are the DNS names and IP addresses of a server. GlobalFS does not check them; other programs do.
	Hosts []string
	// Validity begins now; 0: LeafValidity. It ends with the CA's at the latest.
	Validity time.Duration
}

// NewCA makes a CA for a cluster. The name has 1 to 63 letters, digits, dots, hyphens and underscores.
func NewCA(cluster string, validity time.Duration) (*CA, error) {
	if err := checkName("cluster", cluster); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the CA: %w", err)
	}
	return (&CA{cluster: cluster, key: key}).Renewed(validity)
}

// Renewed returns the CA with the same key and a new certificate: certificates that it has signed stay valid.
func (ca *CA) Renewed(validity time.Duration) (*CA, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{Organization: []string{organization}, CommonName: ca.cluster},
		NotBefore:             time.Now().Add(-skew),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // it signs no other CAs
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the CA: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of the CA: %w", err)
	}
	return &CA{cluster: ca.cluster, certificate: certificate, key: ca.key, generation: ca.generation}, nil
}

// LoadCA reads the CA that Save has written to a directory.
func LoadCA(dir string) (*CA, error) {
	files := CAFilesIn(dir)
	pair, err := readPair(files)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s: not the certificate of a CA", files.Certificate)
	}
	ca := &CA{cluster: pair.Leaf.Subject.CommonName, certificate: pair.Leaf, key: key}
	if err := checkName("cluster", ca.cluster); err != nil {
		return nil, fmt.Errorf("%s: not made by 'globalfs certs init': %w", files.Certificate, err)
	}
	if ca.generation, err = readGeneration(dir); err != nil {
		return nil, err
	}
	return ca, nil
}

// Cluster returns the name of the cluster of this CA.
func (ca *CA) Cluster() string { return ca.cluster }

// NotAfter returns the end of the CA, and of all certificates that it has signed.
func (ca *CA) NotAfter() time.Time { return ca.certificate.NotAfter }

// Pair returns the CA's certificate and key.
func (ca *CA) Pair() (Pair, error) { return encode(ca.certificate.Raw, ca.key) }

// Issue makes a key and a certificate. The key of a server comes with the vector keys. Errors name the
// mistake in the request.
func (ca *CA) Issue(r Request) (Pair, error) {
	id := Identity{Cluster: ca.cluster, Role: r.Role, Name: r.Name, Authority: r.Authority}
	template, err := ca.template(id, r)
	if err != nil {
		return Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("key of %s: %w", id, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate of %s: %w", id, err)
	}
	pair, err := encode(der, key)
	if err != nil || r.Role != Server {
		return pair, err
	}
	vectors, err := ca.vectorKeys()
	pair.Key = appendVectorKeys(pair.Key, vectors)
	return pair, err
}

// template returns the certificate to sign.
func (ca *CA) template(id Identity, r Request) (*x509.Certificate, error) {
	now := time.Now()
	end := now.Add(r.Validity)
	if r.Validity == 0 {
		end = now.Add(LeafValidity)
	}
	if end.After(ca.NotAfter()) {
		end = ca.NotAfter()
	}
	switch {
	case !now.Before(ca.NotAfter()):
		return nil, fmt.Errorf("the CA of cluster %s has expired at %s: renew it with 'globalfs certs init --renew'", ca.cluster, date(ca.NotAfter()))
	case !now.Before(end):
		return nil, fmt.Errorf("validity %v: give a positive one", r.Validity)
	}
	if _, err := parse(id.String()); err != nil {
		return nil, err
	}
	if strings.HasSuffix(id.Name, "-key") {
		return nil, fmt.Errorf("name %q: it must not end in -key, as the names of files with keys do", id.Name)
	}
	uri, err := url.Parse(id.String())
	if err != nil {
		return nil, fmt.Errorf("identity %s: %w", id, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{Organization: []string{organization}, CommonName: id.Name},
		NotBefore:   now.Add(-skew),
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{uri},

		BasicConstraintsValid: true,
	}
	if id.Role == Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	} else if len(r.Hosts) > 0 {
		return nil, fmt.Errorf("a certificate for a %s names no hosts", id.Role)
	}
	return template, addHosts(template, r.Hosts)
}

func addHosts(template *x509.Certificate, hosts []string) error {
	for _, h := range hosts {
		ip := net.ParseIP(h)
		switch {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case h == "" || strings.Trim(h, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*") != "":
			return fmt.Errorf("host %q: give a DNS name or an IP address, without a port", h)
		default:
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return nil
}

// encode encodes a certificate and its key as PEM.
func encode(der []byte, key crypto.Signer) (Pair, error) {
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("private key: %w", err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: bytes}),
	}, nil
}

// date formats a time for messages.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
