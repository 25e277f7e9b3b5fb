package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Revocation makes the certificates of a process invalid that were made until a time.
type Revocation struct {
	Role Role
	Name string
	At   time.Time
}

// SetRevoked replaces the list of revocations. Handshakes go by the list from now on; the caller ends
// connections that are open.
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

// made returns when a certificate was made. 'globalfs certs' makes them valid from an hour before, so that
// hosts may have different clocks; of others the beginning counts, which is not later.
func made(c *x509.Certificate) time.Time {
	if slices.Contains(c.Subject.Organization, organization) {
		return c.NotBefore.Add(skew)
	}
	return c.NotBefore
}
