package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
)

// notRoot is the default set of users, and of groups, that a client may act for.
const notRoot = "1-4294967295"

// maxDays is the maximum validity of a certificate in days.
const maxDays = 36500

// certsFlags are the flags of the commands that make certificates.
type certsFlags struct {
	dir   string
	days  int
	renew bool

	cluster    string
	hosts      []string
	uids, gids string
	root       bool

	report *certsReport // shared by the steps of a command
}

func newCerts(logging *logFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make the certificates of a cluster's processes",
		Long: `certs makes a CA for a cluster, and certificates for its servers, clients (mounts) and administrators. Each process shows its certificate to its
peers, and trusts the CA. The key of the CA is in the directory DIR-ca: keep it on a machine without servers and mounts. Give each host
ca.pem and the two files of its own.

Files: DIR/ca.pem, DIR-ca/ca-key.pem, DIR/ROLE-NAME.pem, DIR/ROLE-NAME-key.pem. The commands keep valid certificates, unless you give --renew.
Running processes use new files within seconds.`,
		Example: `  globalfs certs servers --config cluster.yaml
  globalfs certs init --cluster prod
  globalfs certs server n1 --host n1.example.org,10.0.0.1
  globalfs certs client web --uids 33 --gids 33
  globalfs certs show certs/*.pem`,
	}
	command.Group(cmd)
	cmd.AddCommand(newCertsInit(), newCertsServer(), newCertsServers(), newCertsClient(), newCertsAdmin(), newCertsEtcd(), newCertsShow(), newCertsRotateVectorKey(), newCertsRevoke(logging), newCertsList(logging))
	return cmd
}

// register adds the common flags of the commands that make certificates.
func (f *certsFlags) register(cmd *cobra.Command, days int) {
	cmd.Flags().StringVar(&f.dir, "dir", "certs", "directory of the certificates")
	cmd.Flags().IntVar(&f.days, "days", days, "validity of the certificate in days")
	cmd.Flags().BoolVar(&f.renew, "renew", false, "replace an existing certificate; flags that you do not give keep their values")
	f.report = new(certsReport)
	outputFlag(cmd, &f.report.output)
	cmd.RunE = f.report.reporting(cmd.RunE)
}

func newCertsInit() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "init --cluster NAME",
		Short: "Make the CA of a cluster",
		Long: `init makes the key and the certificate of the CA that signs all other certificates. The owner of the key has all rights in the cluster.
With --renew it makes a new certificate for the same key: certificates that the key has signed stay valid.`,
		Example: `  globalfs certs init --cluster prod
  globalfs certs init --cluster prod --dir /root/globalfs-certs`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.makeCA(cmd)
		},
	}
	f.register(cmd, int(identity.CAValidity/(24*time.Hour)))
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "the name of the cluster")
	return cmd
}

func newCertsServer() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "server NAME",
		Short: "Make the certificate of a server",
		Long: `server makes the certificate of a server. Protect its key: servers keep all data, and act for each other.
The key file also holds the vector keys. With these, servers prove to each other the state that a client has read.`,
		Example: `  globalfs certs server n1 --host n1.example.org,10.0.0.1
  globalfs certs server n1 --renew`,
		Args: oneName,
		RunE: f.run(identity.Server),
	}
	f.register(cmd, int(identity.LeafValidity/(24*time.Hour)))
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil, "DNS names and IP addresses of the server")
	return cmd
}

func newCertsClient() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "client NAME",
		Short: "Make the certificate of a client with the users that it may act for",
		Long: `client makes the certificate of a machine that mounts. The certificate names the users and groups that programs there may act for. Servers check
each request against it, independently of the machine's kernel.

Root squash: without --root, a client does not act for user 0 and group 0. Operations of root on that machine are done as nobody (65534), so
root of that machine is not root of the file system. It can still become any other user. For a machine that you do not trust, name
only the users that work there, with --uids and --gids.`,
		Example: `  globalfs certs client laptop
  globalfs certs client web --uids 33,1000-1999 --gids 33,100
  globalfs certs client backup --root`,
		Args: oneName,
		RunE: f.run(identity.Client),
	}
	f.register(cmd, int(identity.LeafValidity/(24*time.Hour)))
	cmd.Flags().StringVar(&f.uids, "uids", notRoot, "users that the client may act for, such as 33,1000-1999")
	cmd.Flags().StringVar(&f.gids, "gids", notRoot, "groups that the client may act for")
	cmd.Flags().BoolVar(&f.root, "root", false, "allow the client to act for root: no root squash")
	return cmd
}

func newCertsAdmin() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "admin NAME",
		Short: "Make the certificate of an administrator",
		Long:  `admin makes the certificate of an administrator: to add, drain and remove servers, to move leaders, to make backups and to revoke certificates.`,
		Example: `  globalfs certs admin alice
  globalfs certs admin alice --days 7`,
		Args: oneName,
		RunE: f.run(identity.Admin),
	}
	f.register(cmd, int(identity.LeafValidity/(24*time.Hour)))
	return cmd
}

func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.UsageError(fmt.Errorf("%s: give one NAME", cmd.CommandPath()))
	}
	if err := identity.CheckName(args[0]); err != nil {
		return command.InputError(err)
	}
	return nil
}

func (f *certsFlags) check() error {
	if f.days < 1 || f.days > maxDays {
		return command.InputError(fmt.Errorf("--days %d: give 1 to %d", f.days, maxDays))
	}
	return nil
}

func (f *certsFlags) validity() time.Duration { return time.Duration(f.days) * 24 * time.Hour }

// existing reports whether each of the two files exists.
func existingFiles(files identity.Files) (certificate, key bool) {
	_, err := os.Lstat(files.Certificate)
	_, err2 := os.Lstat(files.Key)
	return err == nil, err2 == nil
}

func (f *certsFlags) makeCA(cmd *cobra.Command) error {
	files := identity.CAFilesIn(f.dir)
	certificate, key := existingFiles(files)
	if !certificate && !key {
		if f.cluster == "" {
			return command.UsageError(errors.New("certs init: give the name of the cluster with --cluster"))
		}
		ca, err := identity.NewCA(f.cluster, f.validity())
		if err != nil {
			return command.InputError(err)
		}
		return f.saveCA(cmd, ca, false)
	}
	if !certificate || !key {
		return fmt.Errorf("only one of %s and %s exists: restore the other one, or remove this one to create a new CA", files.Certificate, files.Key)
	}
	ca, err := identity.LoadCA(f.dir)
	switch {
	case err != nil:
		return err
	case f.cluster != "" && f.cluster != ca.Cluster():
		return command.InputError(fmt.Errorf("--cluster %s: %s is the CA of cluster %s: give another --dir", f.cluster, files.Certificate, ca.Cluster()))
	case f.renew:
		if ca, err = ca.Renewed(f.validity()); err != nil {
			return err
		}
		return f.saveCA(cmd, ca, true)
	case time.Now().After(ca.NotAfter()):
		return fmt.Errorf("%s has expired at %s: --renew renews it", files.Certificate, day(ca.NotAfter()))
	}
	return f.report.add(cmd, files, "kept", "the CA of cluster "+ca.Cluster(), ca.NotAfter())
}

func (f *certsFlags) saveCA(cmd *cobra.Command, ca *identity.CA, replace bool) error {
	if err := identity.SaveCA(f.dir, ca, replace); err != nil {
		return err
	}
	return f.report.add(cmd, identity.CAFilesIn(f.dir), "made", "the CA of cluster "+ca.Cluster(), ca.NotAfter())
}

// run makes the certificate of a role.
func (f *certsFlags) run(role identity.Role) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		ca, err := identity.LoadCA(f.dir)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no CA in %s: 'globalfs certs init --cluster NAME --dir %s' makes one", f.dir, f.dir)
		} else if err != nil {
			return err
		}
		files := identity.FilesIn(f.dir, role, args[0])
		certificate, key := existingFiles(files)
		if certificate != key && !f.renew {
			return fmt.Errorf("only one of %s and %s exists: --renew creates both again", files.Certificate, files.Key)
		}
		var old *x509.Certificate
		if certificate {
			if old, err = f.inherit(cmd, files); err != nil {
				return err
			}
		}
		request := identity.Request{Role: role, Name: args[0], Hosts: f.hosts, Validity: f.validity()}
		if role == identity.Client {
			if request.Authority, err = f.authority(); err != nil {
				return err
			}
		}
		if old != nil && !f.renew {
			return f.keep(cmd, ca, files, request, hostsOf(old))
		}
		return f.issue(cmd, ca, files, request)
	}
}

// inherit reads the existing certificate, and takes the values of flags that are not given from it.
func (f *certsFlags) inherit(cmd *cobra.Command, files identity.Files) (*x509.Certificate, error) {
	all, err := identity.ReadCertificates(files.Certificate)
	if err != nil {
		return nil, err
	}
	was, err := identity.FromCertificate(all[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Certificate, err)
	}
	if !cmd.Flags().Changed("host") {
		f.hosts = hostsOf(all[0])
	}
	if was.Authority != nil && !cmd.Flags().Changed("uids") {
		f.uids = posix.FormatIDs(was.Authority.UIDs)
	}
	if was.Authority != nil && !cmd.Flags().Changed("gids") {
		f.gids = posix.FormatIDs(was.Authority.GIDs)
	}
	return all[0], nil
}

// authority returns the users and groups of the flags.
func (f *certsFlags) authority() (*posix.Authority, error) {
	a := new(posix.Authority)
	for _, ids := range []struct {
		flag, text string
		into       *[]posix.IDs
	}{{"--uids", f.uids, &a.UIDs}, {"--gids", f.gids, &a.GIDs}} {
		text := ids.text
		if f.root && text != "" {
			text += ",0"
		} else if f.root {
			text = "0"
		}
		var err error
		if *ids.into, err = posix.ParseIDs(text); err != nil {
			return nil, command.InputError(fmt.Errorf("%s: %w", ids.flag, err))
		}
	}
	return a, nil
}

func (f *certsFlags) issue(cmd *cobra.Command, ca *identity.CA, files identity.Files, request identity.Request) error {
	pair, err := ca.Issue(request)
	if err != nil {
		return command.InputError(err)
	}
	if err := pair.Save(files, f.renew); err != nil {
		return err
	}
	c, err := identity.Load(files, nil)
	if err != nil {
		return err
	}
	return f.report.add(cmd, files, "made", c.Identity().String(), c.NotAfter())
}

// keep keeps the existing certificate, and adds missing vector keys of the CA to the key file of a server. It
// fails if the certificate is invalid or differs from the request.
func (f *certsFlags) keep(cmd *cobra.Command, ca *identity.CA, files identity.Files, request identity.Request, hosts []string) error {
	c, err := identity.Load(files, nil)
	if err != nil {
		return err
	}
	wanted := identity.Identity{Cluster: ca.Cluster(), Role: request.Role, Name: request.Name, Authority: request.Authority}
	if wanted.String() != c.Identity().String() {
		return command.InputError(fmt.Errorf("%s is of %s, and not of %s: --renew corrects that", files.Certificate, c.Identity(), wanted))
	} else if !slices.Equal(sorted(hosts), sorted(request.Hosts)) {
		return command.InputError(fmt.Errorf("%s names the hosts %v, and not %v: --renew corrects that", files.Certificate, hosts, request.Hosts))
	}
	if request.Role == identity.Server {
		switch changed, err := ca.SaveVectorKeys(files); {
		case err != nil:
			return err
		case changed:
			return f.report.add(cmd, files, "kept, with the CA's vector keys", wanted.String(), c.NotAfter())
		}
	}
	return f.report.add(cmd, files, "kept", wanted.String(), c.NotAfter())
}
