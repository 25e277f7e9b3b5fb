package topology

import (
	"slices"
	"time"
)

// Revocation invalidates the certificates of a process before their expiry.
type Revocation struct {
	Role string `yaml:"role" json:"role"`
	Name string `yaml:"name" json:"name"`
	// At is the time of the revocation. Certificates that were issued later are valid.
	At time.Time `yaml:"at" json:"at"`
}

// Revoke adds r to s. It replaces an earlier revocation of the same process.
func (s *Spec) Revoke(r Revocation) {
	s.Pardon(r.Role, r.Name)
	s.Revoked = append(s.Revoked, r)
}

// Pardon removes the revocation of a process, and reports whether there was one.
func (s *Spec) Pardon(role, name string) bool {
	before := len(s.Revoked)
	s.Revoked = slices.DeleteFunc(slices.Clone(s.Revoked), func(r Revocation) bool { return r.Role == role && r.Name == name })
	return len(s.Revoked) < before
}
