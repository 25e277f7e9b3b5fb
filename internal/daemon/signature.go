package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
)

// The server that writes a description to etcd signs it with the key of its certificate. So etcd, and anyone
// with write access to it, can withhold a description or show an older one, which checkVersion refuses, but
// cannot change one. Servers that share a process have an unsigned registry in their own data directory.

// signature is the part of a server that signs and verifies descriptions.
type signature struct{ *Server }

// signs reports whether the description must be signed.
func (s signature) signs() bool { return s.credentials != nil && s.etcd != nil }

// sign returns a spec in the form for the registry: as YAML, signed if necessary.
func (s signature) sign(spec *topology.Spec) ([]byte, error) {
	if !s.signs() {
		return spec.YAML(), nil
	}
	text, err := s.credentials.SignText(spec.YAML())
	if err != nil {
		return nil, fmt.Errorf("sign the description of the cluster: %w", err)
	}
	return text, nil
}

// bootstrap puts the first description into the registry.
func (s signature) bootstrap(ctx context.Context, first topology.Spec) (registry.Document, bool, error) {
	text, err := s.sign(&first)
	if err != nil {
		return registry.Document{}, false, err
	}
	return s.registry.Bootstrap(ctx, text)
}

// read parses a document of the registry after a check of its signature.
func (s *Server) read(d registry.Document) (*description, error) {
	spec, err := topology.ParseSpec(d.Value)
	if err != nil {
		return nil, fmt.Errorf("the registry's description of the cluster: %w", err)
	}
	if err := (signature{s}).verify(d, &spec); err != nil {
		return nil, err
	}
	found, err := describe(spec)
	if err == nil {
		found.text = d.Value
	}
	return found, err
}

// verify fails with identity.ErrSignature if a document has no signature of an authorized process. The
// description that this process knows already needs no signature: a version before signatures wrote it, or a
// server with a certificate of a CA that is no longer in use.
func (s signature) verify(d registry.Document, spec *topology.Spec) error {
	if !s.signs() {
		return nil
	}
	_, _, err := s.credentials.VerifyText(d.Value)
	if err == nil || s.knows(spec) {
		return nil
	}
	return fmt.Errorf("the description of the cluster in etcd, version %d, is refused: %w: it may have been changed in etcd. "+
		"If it describes another cluster of this name, give the new cluster another name, or remove the old one with 'globalfs admin forget'. "+
		"If a server of an older version has written it, start that server with this version: it signs what it knows. "+
		"Otherwise put back the newest copy that a server has: docs/operations.md", spec.Version, err)
}

// knows reports whether a spec equals the newest one of this process.
func (s signature) knows(spec *topology.Spec) bool {
	now := s.known.current.Load()
	return now != nil && bytes.Equal(now.spec.YAML(), spec.YAML())
}

// mayWrite fails if a description revokes the certificate of this server: the others would refuse its
// signature.
func (s signature) mayWrite(d *description) error {
	if s.credentials == nil {
		return nil
	}
	if err := s.credentials.CheckOwn(revocations(d)); err != nil {
		return fmt.Errorf("this server does not change the description of the cluster: %w", err)
	}
	return nil
}

// signAgain signs a known description that was accepted without a valid signature.
func (s signature) signAgain(ctx context.Context, document registry.Document, d *description) error {
	if !s.signs() {
		return nil
	}
	if _, _, err := s.credentials.VerifyText(document.Value); err == nil {
		return nil
	}
	text, err := s.sign(&d.spec)
	if err != nil {
		return err
	}
	if _, err := s.registry.Swap(ctx, document.Version, text); err != nil {
		if errors.Is(err, registry.ErrConflict) {
			return nil // another server was faster
		}
		return err
	}
	d.text = text
	s.logger.Info("the description of the cluster in the registry had no good signature, and is what this server knows: it is signed now", "version", d.spec.Version)
	return saveCopy(s.dir, d)
}

// checkDocument fails if the document is not signed by a server of the cluster, or is older than the
// description that this process knows.
func (s signature) checkDocument(document registry.Document) error {
	d, err := s.read(document)
	if err != nil {
		return err
	}
	return s.checkVersion(d.spec.Version)
}
