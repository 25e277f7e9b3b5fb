package replica

import (
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Client is the machine that a request is from, as the network has proved it. It travels with what is ordered, so that all
// replicas judge the request alike. It is not changed once made.
//
// nil stands for the cluster's own processes, and for everybody where nobody proves who he is: then nothing is bounded, and nothing
// is stored or sent that was not before.
type Client struct {
	// Name tells clients apart. A session belongs to the name that has opened it. Numbers of sessions are no secret: they
	// are part of the ids of blocks.
	Name      string
	Authority *posix.Authority // never nil
}

// maxClientName bounds Client.Name, in bytes.
const maxClientName = 255

func (c *Client) validate() error {
	switch {
	case c == nil:
		return nil
	case c.Name == "" || len(c.Name) > maxClientName:
		return fmt.Errorf("a client's name has 1 to %d bytes: this one has %d", maxClientName, len(c.Name))
	case c.Authority == nil:
		return errors.New("a client must have an authority")
	}
	return c.Authority.Validate()
}

// bounds gives what bounds commands of c; nil if nothing does.
func (c *Client) bounds() *posix.Authority {
	if c == nil || c.Authority.Root() {
		return nil
	}
	return c.Authority
}

// name gives the empty name for one of the cluster's own.
func (c *Client) name() string {
	if c == nil {
		return ""
	}
	return c.Name
}

func appendClient(b []byte, c *Client) []byte {
	return meta.AppendAuthority(varint.AppendBytes(b, c.Name), c.Authority)
}

func readClient(r *varint.Reader) *Client {
	c := &Client{Name: r.String(), Authority: meta.ReadAuthority(r)}
	if c.validate() != nil {
		r.Fail()
	}
	return c
}
