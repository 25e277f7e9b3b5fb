package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
)

func newCertsRevoke(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	var role string
	var undo bool
	cmd := f.register(&cobra.Command{
		Use:   "revoke NAME",
		Short: "Make all servers refuse the certificates of a process",
		Long: `revoke makes all servers refuse the certificates of a client (or of an admin or a server, by --role) that were made until now. Servers close
its connections within seconds. To let the machine in again, make a new certificate: 'globalfs certs client NAME --renew'.

The change is written to the registry (etcd), so etcd must run. A server that is cut off from the registry follows when it reaches it again. The
command needs the certificate of an administrator.`,
		Example: `  globalfs certs revoke laptop --config cluster.yaml
  globalfs certs revoke us-west-2a --role server
  globalfs certs revoke laptop --undo`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.revoke(cmd, &daemon.Request{Op: daemon.Revoke, Role: identity.Role(role), Server: args[0], Undo: undo})
		},
	})
	cmd.Flags().StringVar(&role, "role", string(identity.Client), "client, admin or server")
	command.Choice(cmd, cmd.Flags(), "role", string(identity.Client), string(identity.Admin), string(identity.Server))
	cmd.Flags().BoolVar(&undo, "undo", false, "accept its certificates again")
	return cmd
}

// revoke sends the request to a server other than the one with the certificate to revoke.
func (f *adminFlags) revoke(cmd *cobra.Command, q *daemon.Request) error {
	done := fmt.Sprintf("the certificates of %s %s are refused from now on", q.Role, q.Server)
	if q.Undo {
		done = fmt.Sprintf("the certificates of %s %s are accepted again", q.Role, q.Server)
	}
	if known := f.access.certs.namesOf(q.Role); len(known) > 0 && !slices.Contains(known, q.Server) {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: there is no certificate of %s %q here, only of %s: check the name\n", q.Role, q.Server, strings.Join(known, ", "))
	}
	if q.Role != identity.Server || q.Undo {
		return f.ask(cmd, "", q, done)
	}
	logger, err := f.logging.logger()
	if err != nil {
		return err
	}
	a, err := f.access.open(cmd.Context(), logger, identity.Admin)
	if err != nil {
		return err
	}
	answers := a.Status(cmd.Context())
	if err := a.Close(); err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Error == "" && answer.Status.Registry == "" && answer.Server.Name != q.Server {
			return f.ask(cmd, answer.Server.Name, q, done)
		}
	}
	return errors.New("no other server answers and reaches the registry: a server does not revoke its own certificate")
}

// listedCertificate is a line of 'certs list'.
type listedCertificate struct {
	Role    string     `json:"role"`
	Name    string     `json:"name"`
	State   string     `json:"state"`             // valid, expired or revoked
	Until   *time.Time `json:"until,omitempty"`   // of a certificate in the directory
	Revoked *time.Time `json:"revoked,omitempty"` // when
}

func newCertsList(logging *logFlags) *cobra.Command {
	var access accessFlags
	var dir, output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the certificates of a cluster, and those that are revoked",
		Long: `list prints the certificates in the directory of 'globalfs certs', and all revoked certificates that a server of the cluster knows. Servers
keep no list of valid certificates: each certificate that the CA has signed is valid unless it is revoked.`,
		Example: `  globalfs certs list --dir certs --config cluster.yaml`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := logging.logger()
			if err != nil {
				return err
			}
			a, err := access.open(cmd.Context(), logger, identity.Admin, identity.Client)
			if err != nil {
				return err
			}
			revoked := a.Revoked()
			if err := a.Close(); err != nil {
				return err
			}
			all, err := listCertificates(dir, revoked)
			if err != nil {
				return err
			}
			return printListed(cmd, output, all)
		},
	}
	access.register(cmd)
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory of the certificates; it may be missing")
	outputFlag(cmd, &output)
	return cmd
}

// listCertificates merges the certificates in a directory with the revocations.
func listCertificates(dir string, revoked []topology.Revocation) ([]listedCertificate, error) {
	all := []listedCertificate{}
	checker := new(identity.Credentials)
	var list []identity.Revocation
	for _, r := range revoked {
		list = append(list, identity.Revocation{Role: identity.Role(r.Role), Name: r.Name, At: r.At})
		all = append(all, listedCertificate{Role: r.Role, Name: r.Name, State: "revoked", Revoked: &r.At})
	}
	checker.SetRevoked(list)
	paths, err := filepath.Glob(filepath.Join(dir, "*.pem"))
	if err != nil {
		return nil, command.InputError(fmt.Errorf("--dir %s: %w", dir, err))
	}
	for _, path := range paths {
		certificates, err := identity.ReadCertificates(path)
		if err != nil || strings.HasSuffix(path, "-key.pem") {
			continue // a key, or a file of something else
		}
		id, err := identity.FromCertificate(certificates[0])
		if err != nil {
			continue // of a CA, or of etcd
		}
		line := listedCertificate{Role: string(id.Role), Name: id.Name, State: "valid", Until: &certificates[0].NotAfter}
		switch {
		case checker.CheckRevoked(certificates[0]) != nil:
			line.State = "revoked"
		case time.Now().After(certificates[0].NotAfter):
			line.State = "expired"
		}
		i := slices.IndexFunc(all, func(l listedCertificate) bool { return l.Role == line.Role && l.Name == line.Name })
		if i < 0 {
			all = append(all, line)
			continue
		}
		all[i].State, all[i].Until = line.State, line.Until
	}
	return all, nil
}

func printListed(cmd *cobra.Command, output string, all []listedCertificate) error {
	if output == "json" {
		return command.PrintJSON(cmd.OutOrStdout(), all)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "role\tname\tstate\tuntil\trevoked")
	for _, c := range all {
		until, revoked := "-", "-"
		if c.Until != nil {
			until = day(*c.Until)
		}
		if c.Revoked != nil {
			revoked = c.Revoked.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Role, c.Name, c.State, until, revoked)
	}
	return w.Flush()
}
