package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
)

// shownCertificate is the output of `certs show` for one certificate.
type shownCertificate struct {
	File     string    `json:"file"`
	Role     string    `json:"role"` // server, client, admin, etcd or ca
	Cluster  string    `json:"cluster"`
	Name     string    `json:"name,omitempty"`
	UIDs     string    `json:"uids,omitempty"` // of clients
	GIDs     string    `json:"gids,omitempty"`
	Hosts    []string  `json:"hosts,omitempty"` // of servers
	Until    time.Time `json:"until"`
	DaysLeft int       `json:"days_left"` // negative: it has expired
}

func newCertsShow() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show the owner and the expiry date of certificates",
		Long: `show prints the owner of the certificate in each FILE, the users and groups of a client, and the expiry date. It skips files with keys,
and does not verify signatures.`,
		Example: `  globalfs certs show certs/*.pem
  globalfs certs show -o json certs/*.pem | jq '.[] | select(.days_left < 14) | .file'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageError(errors.New("certs show: give at least one FILE, such as certs/*.pem"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := showCertificates(args)
			if output == "json" {
				return errors.Join(err, command.PrintJSON(cmd.OutOrStdout(), all))
			}
			if len(all) == 0 {
				return err
			}
			return errors.Join(err, printCertificates(cmd.OutOrStdout(), all))
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// showCertificates returns the readable certificates, and an error that names the others.
func showCertificates(paths []string) ([]shownCertificate, error) {
	all := []shownCertificate{}
	var errs []error
	for _, path := range paths {
		certificates, err := identity.ReadCertificates(path)
		if errors.Is(err, identity.ErrKey) && len(paths) > 1 {
			continue
		} else if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, c := range certificates {
			shown, err := showCertificate(path, c)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", path, err))
				continue
			}
			all = append(all, shown)
		}
	}
	return all, errors.Join(errs...)
}

func showCertificate(path string, c *x509.Certificate) (shownCertificate, error) {
	left := int(time.Until(c.NotAfter).Hours() / 24)
	if time.Now().After(c.NotAfter) {
		left = min(left, -1)
	}
	shown := shownCertificate{File: path, Until: c.NotAfter, DaysLeft: left}
	if c.IsCA {
		shown.Role, shown.Cluster = "ca", c.Subject.CommonName
		return shown, nil
	}
	if len(c.URIs) == 0 && c.Issuer.CommonName == "etcd" { // of 'certs etcd'
		shown.Role, shown.Name, shown.Hosts = "etcd", c.Subject.CommonName, hostsOf(c)
		return shown, nil
	}
	id, err := identity.FromCertificate(c)
	if err != nil {
		return shown, err
	}
	shown.Role, shown.Cluster, shown.Name, shown.Hosts = string(id.Role), id.Cluster, id.Name, hostsOf(c)
	if id.Authority != nil {
		shown.UIDs, shown.GIDs = posix.FormatIDs(id.Authority.UIDs), posix.FormatIDs(id.Authority.GIDs)
	}
	return shown, nil
}

func printCertificates(out io.Writer, all []shownCertificate) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "file\tcluster\trole\tname\tuntil\tdays left\tfor")
	for _, c := range all {
		left := fmt.Sprint(c.DaysLeft)
		if c.DaysLeft < 0 {
			left = "expired"
		}
		whom := ""
		switch {
		case c.Role == string(identity.Client):
			whom = fmt.Sprintf("uids %s gids %s", orNone(c.UIDs), orNone(c.GIDs))
		case len(c.Hosts) > 0:
			whom = fmt.Sprint(c.Hosts)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.File, c.Cluster, c.Role, c.Name, day(c.Until), left, whom)
	}
	return w.Flush()
}

func orNone(ids string) string {
	if ids == "" {
		return "none"
	}
	return ids
}

// hostsOf returns the hosts that a certificate names.
func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func sorted(hosts []string) []string { return slices.Sorted(slices.Values(hosts)) }
