package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/globalfs/globalfs/internal/durable"
)

const (
	caFile           = "ca.pem"
	caKeyFile        = "ca-key.pem"
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	maxFile          = 1 << 20 // bytes of a certificate or key file
)

// ErrKey means that a file holds a key instead of certificates.
var ErrKey = errors.New("this is a private key, not a certificate")

// Files are the paths of the certificate, the key and the trusted CAs of a process, as PEM.
type Files struct {
	CA          string // the certificates of the trusted CAs
	Certificate string
	Key         string // of the certificate
}

// FilesIn returns the files of a process in a directory of 'globalfs certs'.
func FilesIn(dir string, role Role, name string) Files {
	base := filepath.Join(dir, string(role)+"-"+name)
	return Files{CA: filepath.Join(dir, caFile), Certificate: base + ".pem", Key: base + "-key.pem"}
}

// Find returns the files of a process of a role in a directory. An empty name means the only certificate of
// the role.
func Find(dir string, role Role, name string) (Files, error) {
	names, err := Names(dir, role)
	if err != nil {
		return Files{}, err
	}
	switch {
	case name != "" && slices.Contains(names, name):
		return FilesIn(dir, role, name), nil
	case name != "" && len(names) > 0:
		return Files{}, fmt.Errorf("%s: no certificate of the %s %q, only of %s", dir, role, name, strings.Join(names, ", "))
	}
	switch len(names) {
	case 0:
		return Files{}, fmt.Errorf("%s: no certificate for the role %s: 'globalfs certs %s NAME' makes one", dir, role, role)
	case 1:
		return FilesIn(dir, role, names[0]), nil
	}
	return Files{}, fmt.Errorf("%s: certificates of several %ss (%s): choose one with --name NAME, or keep one on each host", dir, role, strings.Join(names, ", "))
}

// Names returns the names of the processes of a role that have a certificate in a directory.
func Names(dir string, role Role) (names []string, err error) {
	if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrPermission) { // Glob finds nothing then
		return nil, fmt.Errorf("certificates: %w: its owner can give this user read permission", err)
	}
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), string(role)+"-*.pem"))
	if err != nil {
		return nil, fmt.Errorf("certificates in %s: %w", dir, err)
	}
	for _, path := range found {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), string(role)+"-"), ".pem")
		if !strings.HasSuffix(name, "-key") {
			names = append(names, name)
		}
	}
	return names, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// CAFilesIn returns the files of the CA's own certificate and key: the certificate in dir, the key in KeyDir.
func CAFilesIn(dir string) Files {
	return Files{CA: filepath.Join(dir, caFile), Certificate: filepath.Join(dir, caFile), Key: filepath.Join(KeyDir(dir), caKeyFile)}
}

// KeyDir returns the directory of the keys that sign the certificates of dir. It is DIR-ca, apart from dir,
// so that a copy of dir for a server or a client contains no such key. Version 0.1 wrote the key into dir: if
// the key is still there, dir is the answer.
func KeyDir(dir string) string {
	if hasCAKey(dir) {
		return dir
	}
	switch base := filepath.Base(dir); base {
	case ".", "..":
		if full, err := filepath.Abs(dir); err == nil {
			dir = full
		}
	}
	return filepath.Clean(dir) + "-ca"
}

// hasCAKey reports whether a directory of certificates contains the key of the CA.
func hasCAKey(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, caKeyFile))
	return err == nil
}

// SaveCA writes a CA to a directory, and makes the directory if necessary. Without replace the files must not
// exist: otherwise the error is fs.ErrExist.
func SaveCA(dir string, ca *CA, replace bool) error {
	p, err := ca.Pair()
	if err != nil {
		return err
	}
	return p.Save(CAFilesIn(dir), replace)
}

// Save writes the certificate and key of a process to the paths of f, and makes the directories if necessary.
// Without replace the files must not exist: otherwise the error is fs.ErrExist.
//
// The key is written first: a certificate without a key would look complete.
func (p Pair) Save(f Files, replace bool) error {
	for _, path := range []string{f.Certificate, f.Key} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	}
	for _, path := range []string{f.Key, f.Certificate} {
		if _, err := os.Lstat(path); !replace && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
	}
	if err := writeFile(f.Key, p.Key, 0o600, replace); err != nil {
		return err
	}
	return writeFile(f.Certificate, p.Certificate, 0o644, replace)
}

// writeFile makes a file with all its bytes or not at all. Without replace it fails if the file exists, even
// if another process makes it at the same time.
func writeFile(path string, data []byte, mode fs.FileMode, replace bool) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // a renamed file is already gone
	if replace {
		mode |= keepReaders(f, path)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if replace {
		err = os.Rename(f.Name(), path)
	} else {
		err = os.Link(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// keepReaders gives f, which will replace the file at path, the owner and the group of that file. It returns
// the group's permission to read that file: a server that is not run by root needs this permission to read
// its renewed key. It changes nothing if another user may have put that file there, or if the file has an
// access control list, in which the group's permission has another meaning. If this process cannot set the
// owner, the group gets no permission.
func keepReaders(f *os.File, path string) fs.FileMode {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || dir.Mode()&0o022 != 0 || !isOurs(dir) {
		return 0
	}
	before, ok := info.Sys().(*syscall.Stat_t)
	if _, err := syscall.Getxattr(path, "system.posix_acl_access", nil); !ok || err == nil || f.Chown(int(before.Uid), int(before.Gid)) != nil {
		return 0
	}
	return info.Mode() & 0o040
}

// isOurs reports whether root or the user of this process owns a file.
func isOurs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid())
}

// readFile reads a regular file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: 'globalfs certs' makes certificates", err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, fmt.Errorf("%s: not a file with certificates or a key", path)
	}
	return os.ReadFile(path)
}

// ReadCertificates reads all certificates in a file, at least one.
func ReadCertificates(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	all, err := parseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func parseCertificates(data []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == keyBlock && len(all) == 0 {
			return nil, ErrKey
		}
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("there is a %q among the certificates", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return all, nil
}

// readPair reads a certificate, with others that lead to a CA if there are any, and its key.
func readPair(f Files) (tls.Certificate, error) {
	certificate, err := readFile(f.Certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile(f.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s with the key %s: %w", f.Certificate, f.Key, err)
	}
	return pair, nil
}
