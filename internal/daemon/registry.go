package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
)

// openRegistry makes the access to etcd. It does not connect yet.
func openRegistry(f *File, logger *slog.Logger) (*registry.Etcd, error) {
	if f.Registry.File != "" {
		return nil, fmt.Errorf("registry: file: %s: the servers of this cluster run in one process: 'globalfs dev --data-dir %s' runs them", f.Registry.File, f.DataDir)
	}
	cfg := registry.Config{
		Endpoints: f.Registry.Endpoints, Cluster: f.Name, Username: f.Registry.Username,
		Timeout: f.Registry.Timeout, Lease: f.Registry.Lease, Insecure: f.Registry.Insecure, Logger: logger,
	}
	if f.Registry.PasswordFile != "" {
		password, err := os.ReadFile(f.Registry.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("registry: password_file: %w", err)
		}
		cfg.Password = strings.TrimSpace(string(password))
	}
	var err error
	if cfg.TLS, err = f.Registry.tls(); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return registry.OpenEtcd(cfg)
}

// CheckRegistry refuses an etcd that is reached over a network without encryption.
func (f *File) CheckRegistry() error {
	if f.Registry.Insecure {
		return nil
	}
	return registry.CheckEncrypted(f.Registry.Endpoints)
}

// tls returns the TLS configuration for etcd; nil: the default for its endpoints, with the system's roots.
func (r *RegistryFile) tls() (*tls.Config, error) {
	if r.CA == "" && r.Certificate == "" && r.Key == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CA != "" {
		text, err := os.ReadFile(r.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w: 'globalfs certs servers --etcd' makes it, or name the CA of your etcd in the cluster file", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM", r.CA)
		}
	}
	if (r.Certificate == "") != (r.Key == "") {
		return nil, errors.New("certificate, key: give both or neither")
	}
	if r.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(r.Certificate, r.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// Forget deletes the cluster that f describes from the registry. It fails, and deletes nothing, while servers
// of the cluster live (registry.ErrLive), and if the registry has no such cluster (registry.ErrNotFound).
// Files and blocks stay unchanged.
func Forget(ctx context.Context, f *File, logger *slog.Logger) error {
	r, err := openRegistry(f, logger)
	if err != nil {
		return err
	}
	return errors.Join(r.Remove(ctx), r.Close())
}

// edit changes the cluster's description in the registry, and returns the new one. It calls change with a
// copy of the description to modify and with the present cluster; it calls change again after a conflict with
// another writer.
func (s *Server) edit(ctx context.Context, change func(*topology.Spec, *topology.Cluster) error) (*description, error) {
	for {
		document, err := s.registry.Load(ctx)
		if err != nil {
			return nil, err
		}
		was, err := s.read(document)
		if err == nil {
			err = s.checkVersion(was.spec.Version)
		}
		if err == nil {
			err = s.mustHave(was)
		}
		if err == nil {
			err = signature{s}.mayWrite(was)
		}
		if err != nil {
			return nil, err
		}
		spec := was.copySpec()
		if err := change(&spec, was.cluster); err != nil {
			return nil, err
		}
		spec.Version++ // not the registry's own number, which restarts if the registry's data is lost
		next, err := describe(spec)
		if err == nil {
			next.text, err = signature{s}.sign(&spec)
		}
		if err != nil {
			return nil, err
		}
		_, err = s.registry.Swap(ctx, document.Version, next.text)
		switch {
		case errors.Is(err, registry.ErrConflict):
			continue
		case err != nil:
			return nil, err
		}
		return next, nil
	}
}
