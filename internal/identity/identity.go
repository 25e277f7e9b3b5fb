package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// Role is the function of a process in a cluster.
type Role string

// The roles.
const (
	Server Role = "server" // hosts replicas and blocks, and acts for any process
	Admin  Role = "admin"  // requests changes of the cluster
	Client Role = "client" // mounts: requests the operations of its users
)

// Identity identifies a process.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
	// Authority has the users and groups that a client may act for; every client has one. Nil, for servers
	// and admins, means no bounds.
	Authority *posix.Authority
}

const scheme = "globalfs"

var errNoAuthority = errors.New("the identity of a client must end with ?uids=RANGES&gids=RANGES")

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// CheckName returns the error in the name of a process, or nil.
func CheckName(name string) error { return checkName("name", name) }

// checkName returns the error in the name of a cluster or a process, or nil.
func checkName(what, name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%s %q: give 1 to 63 letters, digits, dots, hyphens and underscores", what, name)
	}
	return nil
}

// String returns the identity in the form of certificates.
func (id Identity) String() string {
	text := fmt.Sprintf("%s://%s/%s/%s", scheme, id.Cluster, id.Role, id.Name)
	if id.Authority != nil {
		text += "?uids=" + posix.FormatIDs(id.Authority.UIDs) + "&gids=" + posix.FormatIDs(id.Authority.GIDs)
	}
	return text
}

// FromCertificate reads the identity in a certificate, and does not check the signature. The certificate must
// have one URI, with a complete identity. Errors name the mistake.
func FromCertificate(c *x509.Certificate) (Identity, error) {
	switch {
	case c.IsCA:
		return Identity{}, errors.New("this is the certificate of a CA, not of a process")
	case len(c.URIs) != 1:
		return Identity{}, fmt.Errorf("the certificate has %d URIs: there must be one, with the identity of the process", len(c.URIs))
	}
	return parse(c.URIs[0].String())
}

// parse reads the format of String.
func parse(uri string) (id Identity, err error) {
	rest, ok := strings.CutPrefix(uri, scheme+"://")
	path, query, hasQuery := strings.Cut(rest, "?")
	parts := strings.Split(path, "/")
	if !ok || len(parts) != 3 {
		return id, fmt.Errorf("identity %q: not of the form %s://CLUSTER/ROLE/NAME", uri, scheme)
	}
	id = Identity{Cluster: parts[0], Role: Role(parts[1]), Name: parts[2]}
	if err := errors.Join(checkName("cluster", id.Cluster), checkName("name", id.Name)); err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", uri, err)
	}
	switch {
	case id.Role == Client && hasQuery:
		id.Authority, err = parseAuthority(query)
	case id.Role == Client:
		err = errNoAuthority
	case id.Role != Server && id.Role != Admin:
		err = fmt.Errorf("there is no role %q", id.Role)
	case hasQuery:
		err = fmt.Errorf("the identity of a %s must end with its name", id.Role)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", uri, err)
	}
	return id, nil
}

// parseAuthority reads uids=RANGES&gids=RANGES.
func parseAuthority(query string) (*posix.Authority, error) {
	uids, gids, ok := strings.Cut(query, "&gids=")
	uids, ok2 := strings.CutPrefix(uids, "uids=")
	if !ok || !ok2 {
		return nil, errNoAuthority
	}
	a := new(posix.Authority)
	var err, err2 error
	a.UIDs, err = posix.ParseIDs(uids)
	a.GIDs, err2 = posix.ParseIDs(gids)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return a, nil
}
