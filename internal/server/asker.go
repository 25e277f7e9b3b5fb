package server

import (
	"context"
	"errors"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
)

// Asker is the caller of a request to this server, as the network has authenticated it.
type Asker struct {
	Server bool // a server of the cluster: it has the rights of an operator, and may make the calls between servers
	Admin  bool // an operator: it may change the cluster, and has the rights of a client for all users
	// Name identifies a client, which owns its sessions under this name. It must not be empty if Authority
	// is set.
	Name string
	// Authority has the users that a client may act for. A caller that is neither server nor admin and has
	// no Authority has no rights.
	Authority *posix.Authority
}

// errNobody answers the calls of unauthenticated callers.
var errNobody = errors.New("the caller may not use this cluster: it has no certificate of a server, an operator or a client")

// errServersOnly answers calls that only servers make.
var errServersOnly = errors.New("only a server of the cluster may ask for this: the caller's certificate is not one of a server")

// trustAll is the Config.Asker of a cluster without authentication: every caller has all rights.
func trustAll(context.Context) Asker { return Asker{Server: true, Admin: true} }

// isNobody reports whether a has no rights.
func (a *Asker) isNobody() bool { return !a.Server && !a.Admin && a.Authority == nil }

// client returns a in the form for replicas; nil: the caller has no limits.
func (a *Asker) client() *ask.Client {
	if a.Server || a.Admin {
		return nil
	}
	return &ask.Client{Name: a.Name, Authority: a.Authority}
}

// role returns a in the form for storage servers.
func (a *Asker) role() region.Role {
	switch {
	case a.isNobody():
		return region.RoleNobody
	case a.Server:
		return region.RoleServer
	case a.Admin:
		return region.RoleAdmin
	case a.Authority.Root():
		return region.RoleTrusted
	}
	return region.RoleClient
}
