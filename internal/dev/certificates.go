package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
)

// Names in the certificates of processes other than servers.
const (
	operatorName = "operator"
	clientName   = "client"
)

// certify makes the cluster's CA, and the certificates of an operator and of a client, if they are missing.
// They are valid as long as the CA: a shorter validity adds no security, because the key of the CA is in the
// same directory.
func (c *Cluster) certify() error {
	dir := c.file.Certificates
	ca, err := identity.LoadCA(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && time.Until(ca.NotAfter()) < identity.LeafValidity {
		if ca, err = identity.NewCA(c.file.Name, identity.CAValidity); err == nil {
			err = identity.SaveCA(dir, ca, true)
		}
	}
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	err = errors.Join(
		certifyOne(ca, dir, identity.Request{Role: identity.Admin, Name: operatorName}),
		certifyOne(ca, dir, identity.Request{Role: identity.Client, Name: clientName, Authority: posix.Everybody()}),
	)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

// certifyOne makes a certificate unless there is a valid one.
func certifyOne(ca *identity.CA, dir string, r identity.Request) error {
	files := identity.FilesIn(dir, r.Role, r.Name)
	if _, err := identity.Load(files, nil); err == nil {
		if r.Role == identity.Server {
			_, err = ca.SaveVectorKeys(files)
		}
		return err
	}
	r.Validity = identity.CAValidity
	pair, err := ca.Issue(r)
	if err != nil {
		return err
	}
	return pair.Save(files, true)
}

// certifyServer makes the certificate of a server.
func (c *Cluster) certifyServer(name string) error {
	ca, err := identity.LoadCA(c.file.Certificates)
	if err == nil {
		err = certifyOne(ca, c.file.Certificates, identity.Request{Role: identity.Server, Name: name})
	}
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}
