package server

import (
	"context"
	"errors"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
)

// Asker is who makes a call to this server, as the network has proved it.
type Asker struct {
	Server bool // a server of the cluster: may ask what servers ask each other, and all that an operator may
	Admin  bool // an operator: may change the cluster, and all that a client may that speaks for everybody
	// Name tells clients apart: sessions belong to it. It must not be empty if there is an Authority.
	Name string
	// Authority says for whom a client may speak. Who is neither server nor admin and has none may do nothing.
	Authority *posix.Authority
}

// errNobody answers calls of who has not proved anything.
var errNobody = errors.New("the caller may not use this cluster: it has no certificate of a server, an operator or a client")

// errServersOnly answers calls that only servers make.
var errServersOnly = errors.New("only a server of the cluster may ask for this: the caller's certificate is not one of a server")

// trustAll is Config.Asker where nobody proves who he is: everybody may do everything.
func trustAll(context.Context) Asker { return Asker{Server: true, Admin: true} }

// isNobody reports whether a may do nothing.
func (a *Asker) isNobody() bool { return !a.Server && !a.Admin && a.Authority == nil }

// client gives a as replicas see it.
func (a *Asker) client() *ask.Client {
	if a.Server || a.Admin {
		return nil
	}
	return &ask.Client{Name: a.Name, Authority: a.Authority}
}

// role gives a as storage nodes see it.
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
