package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Revocation invalidates all certificates of a process that were made until a time.
type Revocation struct {
	Role Role
	Name string
	At   time.Time
}

// SetRevoked replaces the list of revocations. Later handshakes use the list; the caller ends open
// connections.
func (c *Credentials) SetRevoked(list []Revocation) {
	list = slices.Clone(list)
	c.revoked.Store(&list)
}

// CheckRevoked fails if a certificate is revoked.
func (c *Credentials) CheckRevoked(certificate *x509.Certificate) error {
	if list := c.revoked.Load(); list != nil {
		return checkRevoked(certificate, *list)
	}
	return nil
}

// CheckOwn fails if a list revokes the own certificate.
func (c *Credentials) CheckOwn(list []Revocation) error {
	return checkRevoked(c.current().certificate.Leaf, list)
}

func checkRevoked(certificate *x509.Certificate, list []Revocation) error {
	if len(list) == 0 {
		return nil
	}
	id, err := FromCertificate(certificate)
	if err != nil {
		return err
	}
	for _, r := range list {
		if r.Role == id.Role && r.Name == id.Name && !made(certificate).After(r.At) {
			return fmt.Errorf("the certificate of %s %s was revoked at %s: 'globalfs certs %s %s --renew' makes a new one", id.Role, id.Name, date(r.At), id.Role, id.Name)
		}
	}
	return nil
}

// made returns the time at which a certificate was made. 'globalfs certs' makes certificates valid from an
// hour earlier, because hosts may have different clocks. For other certificates it returns the beginning of
// the validity, which is not later.
func made(c *x509.Certificate) time.Time {
	if slices.Contains(c.Subject.Organization, organization) {
		return c.NotBefore.Add(skew)
	}
	return c.NotBefore
}
