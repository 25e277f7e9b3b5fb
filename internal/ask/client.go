package ask

import (
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Client is the identity of the machine that has sent a request, as the server of the replica has verified
// it. It is ordered together with the request, so that all replicas judge the request alike. A Client is not
// changed after it was made.
//
// A nil *Client stands for the cluster's own processes, and for every client of a cluster that does not
// verify identities. Their requests are not bounded, and a nil *Client adds no bytes to what is sent and
// stored. Validate, Bounds and Owner accept nil.
type Client struct {
	// Name distinguishes clients. A session belongs to the name that has opened it. Numbers of sessions are
	// no secret: they are part of the ids of blocks.
	Name      string
	Authority *posix.Authority // never nil
}

// MaxClientName is the largest length of Client.Name, in bytes.
const MaxClientName = 255

// Validate returns an error that names the field that is out of range.
func (c *Client) Validate() error {
	switch {
	case c == nil:
		return nil
	case c.Name == "" || len(c.Name) > MaxClientName:
		return fmt.Errorf("a client's name has 1 to %d bytes: this one has %d", MaxClientName, len(c.Name))
	case c.Authority == nil:
		return errors.New("a client must have an authority")
	}
	return c.Authority.Validate()
}

// Bounds returns the authority that bounds the commands of c; nil if nothing bounds them.
func (c *Client) Bounds() *posix.Authority {
	if c == nil || c.Authority.Root() {
		return nil
	}
	return c.Authority
}

// IsNarrow reports whether the certificate of c permits only some users or groups. A usual mount may act for
// all users and groups, or for all but root.
func (c *Client) IsNarrow() bool { return c != nil && c.Authority.IsNarrow() }

// Owner returns the name to which the sessions of c belong; the empty name if c is nil.
func (c *Client) Owner() string {
	if c == nil {
		return ""
	}
	return c.Name
}

// AppendClient appends the encoding of c, which must not be nil.
func AppendClient(b []byte, c *Client) []byte {
	return meta.AppendAuthority(varint.AppendBytes(b, c.Name), c.Authority)
}

// ReadClient reads a client that AppendClient has written. If it is malformed or not valid, r.Err reports it.
func ReadClient(r *varint.Reader) *Client {
	c := &Client{Name: r.String(), Authority: meta.ReadAuthority(r)}
	if c.Validate() != nil {
		r.Fail()
	}
	return c
}
