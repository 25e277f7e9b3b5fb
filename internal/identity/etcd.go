package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// Etcd has its own CA: etcd accepts each certificate of its CA, so with the cluster's CA each client of the
// file system could write the data of etcd. The certificates of etcd's CA have no URI, so no process of
// GlobalFS accepts them.
const (
	etcdPrefix = "etcd-"
	etcdClient = "client" // the name in the certificate that the servers share
)

// EtcdFiles returns the files by which servers reach etcd, in a directory of 'globalfs certs'.
func EtcdFiles(dir string) Files { return etcdMember(dir, etcdClient) }

func etcdMember(dir, name string) Files {
	base := filepath.Join(dir, etcdPrefix+name)
	return Files{CA: filepath.Join(dir, "etcd-ca.pem"), Certificate: base + ".pem", Key: base + "-key.pem"}
}

// IssueEtcd makes the certificate of a member of etcd, for the hosts under which servers and other members
// reach it. The first call makes the CA of etcd, and the certificate of the servers. It returns the files
// that it has written.
func IssueEtcd(dir, name string, hosts []string, validity time.Duration) ([]Files, error) {
	switch err := checkName("name", name); {
	case err != nil:
		return nil, err
	case name == "ca" || name == etcdClient:
		return nil, fmt.Errorf("name %q: give another one: this is the name of a file for all members", name)
	case len(hosts) == 0:
		return nil, errors.New("hosts: missing: give the names or addresses of the member, as they stand in the endpoints")
	}
	ca, err := etcdCA(dir)
	if err != nil {
		return nil, err
	}
	var written []Files
	for _, c := range []struct {
		name     string
		hosts    []string
		validity time.Duration
	}{{etcdClient, nil, ca.clientValidity(dir, validity)}, {name, hosts, validity}} {
		files := etcdMember(dir, c.name)
		pair, err := ca.issueEtcd(c.name, c.hosts, c.validity)
		if err != nil {
			return nil, err
		}
		if err := pair.Save(files, true); err != nil {
			return nil, err
		}
		written = append(written, files)
	}
	return written, nil
}

// clientValidity returns the validity of the servers' certificate, which is renewed with each member. The
// certificate ends neither before that of the new member nor before the servers' certificate in dir.
func (ca *CA) clientValidity(dir string, validity time.Duration) time.Duration {
	pair, err := readPair(etcdMember(dir, etcdClient))
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.certificate) != nil {
		return validity // there is none, or no server can use it
	}
	return max(validity, time.Until(pair.Leaf.NotAfter))
}

// etcdCA returns the CA of etcd, and makes it if there is none.
func etcdCA(dir string) (*CA, error) {
	files := Files{Certificate: etcdMember(dir, etcdClient).CA, Key: filepath.Join(KeyDir(dir), "etcd-ca-key.pem")}
	pair, err := readPair(files)
	if err == nil {
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if !ok || !pair.Leaf.IsCA {
			return nil, fmt.Errorf("%s: not the certificate of a CA", files.Certificate)
		}
		return &CA{cluster: pair.Leaf.Subject.CommonName, certificate: pair.Leaf, key: key}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ca, err := NewCA("etcd", CAValidity)
	if err != nil {
		return nil, err
	}
	made, err := ca.Pair()
	if err != nil {
		return nil, err
	}
	return ca, made.Save(files, false)
}

// issueEtcd makes one certificate: of a member if it has hosts, otherwise of the servers.
func (ca *CA) issueEtcd(name string, hosts []string, validity time.Duration) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{Organization: []string{organization}, CommonName: name},
		NotBefore:   time.Now().Add(-skew),
		NotAfter:    time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},

		BasicConstraintsValid: true,
	}
	if len(hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if err := addHosts(template, hosts); err != nil {
		return Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate of %s: %w", name, err)
	}
	return encode(der, key)
}
