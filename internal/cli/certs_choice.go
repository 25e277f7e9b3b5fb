package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
)

// defaultCerts are the default directories of certificates.
const defaultCerts = "./certs, /etc/globalfs/certs"

// noCerts is the value of --certs for a cluster that has no certificates.
const noCerts = "none"

// certsChoice are the flags that choose the certificate of this process.
type certsChoice struct {
	dir, name string
}

func (c *certsChoice) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.dir, "certs", "", "directory with ca.pem and a certificate made by 'globalfs certs', or none for a cluster without certificates (default: "+defaultCerts+" if there is a certificate in it)")
	cmd.Flags().StringVar(&c.name, "name", "", "name of the certificate, if the directory has several")
	flagValues(cmd, "name", certificateNames(c))
}

// find returns the certificate of the first of the roles for which there is one; no files: the cluster has no
// certificates. configured is the directory that the cluster file names; empty: it names none.
func (c *certsChoice) find(configured string, roles ...identity.Role) (identity.Files, error) {
	dir := c.dir
	if dir == "" {
		dir = configured
	}
	if dir == "" {
		dir = defaultCertsDir(roles...)
	}
	if dir == noCerts || dir == "" {
		if c.name != "" {
			return identity.Files{}, command.UsageError(fmt.Errorf("--name %s: give the directory of the certificate, too: --certs DIR", c.name))
		}
		return identity.Files{}, nil
	}
	var failed error
	for _, role := range roles {
		files, err := identity.Find(dir, role, c.name)
		if err == nil {
			return files, nil
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return identity.Files{}, command.InputError(failed)
}

// namesOf returns the names of the certificates of a role in the chosen directory, or in the default one.
func (c *certsChoice) namesOf(role identity.Role) []string {
	dir := c.dir
	if dir == "" {
		dir = defaultCertsDir(role)
	}
	names, err := identity.Names(dir, role)
	if err != nil {
		return nil
	}
	return names
}

// defaultCertsDir returns the first default directory with a certificate of one of the roles. Empty: there is
// none.
func defaultCertsDir(roles ...identity.Role) string {
	for dir := range strings.SplitSeq(defaultCerts, ", ") {
		for _, role := range roles {
			found, err := filepath.Glob(filepath.Join(dir, string(role)+"-*.pem"))
			if err == nil && len(found) > 0 && isThere(filepath.Join(dir, "ca.pem")) {
				return dir
			}
		}
	}
	return ""
}

// checkServers refuses unusable addresses before any call of a server. encrypted means that this process has
// a certificate. limit bounds the time of the look-up of names.
func checkServers(ctx context.Context, servers []string, encrypted bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var unknown []string
	for _, s := range servers {
		if err := topology.CheckAddress(s); err != nil {
			return command.InputError(fmt.Errorf("server %w", err))
		}
		host, _, _ := net.SplitHostPort(s) // CheckAddress has split it
		var failed *net.DNSError
		if _, err := net.DefaultResolver.LookupHost(ctx, host); errors.As(err, &failed) && failed.IsNotFound {
			unknown = append(unknown, host)
			continue
		}
		if ip := net.ParseIP(host); !encrypted && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return command.InputError(fmt.Errorf("server %s: connections to other hosts need a certificate: give --certs DIR; 'globalfs certs' makes certificates", s))
		}
	}
	if len(unknown) > 0 && len(unknown) == len(servers) {
		return command.InputError(fmt.Errorf("cannot resolve %s: check the names, or give IP addresses", strings.Join(unknown, ", ")))
	}
	return nil
}
