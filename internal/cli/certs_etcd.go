package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
)

func newCertsEtcd() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "etcd NAME --host HOST",
		Short: "Make the certificates of a member of etcd, and of servers as its clients",
		Long: `etcd makes certificates for connections between servers and etcd. NAME is one member of the etcd cluster, and HOST its address. Repeat the
command for each member. It writes into DIR:

  etcd-NAME.pem, etcd-NAME-key.pem      the certificate and the key of the member
  etcd-client.pem, etcd-client-key.pem  the certificate and the key that all GlobalFS servers use as clients of etcd
  etcd-ca.pem                           the CA that signs both

This CA is separate from the CA of the cluster, because etcd lets the owner of each certificate of its CA write. The file of
'globalfs init --etcd https://...' refers to these names.

Start the member with the options of the example. If there are several members, also pass the same files with --peer-cert-file,
--peer-key-file and --peer-trusted-ca-file, and add --peer-client-cert-auth.`,
		Example: `  globalfs certs etcd etcd1 --host etcd1.example.com,10.0.0.9
  etcd --cert-file etcd-etcd1.pem --key-file etcd-etcd1-key.pem --client-cert-auth --trusted-ca-file etcd-ca.pem ...`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if len(f.hosts) == 0 {
				return command.UsageError(errors.New("certs etcd: give the names or addresses of the member with --host, as they stand in the endpoints"))
			}
			return f.etcd(cmd, args[0])
		},
	}
	f.register(cmd, int(identity.LeafValidity/(24*time.Hour)))
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil, "DNS names and IP addresses of the member")
	return cmd
}

// etcd makes the certificates. Without --renew it keeps existing ones.
func (f *certsFlags) etcd(cmd *cobra.Command, name string) error {
	files := identity.FilesIn(f.dir, "etcd", name)
	if certificate, _ := existingFiles(files); certificate && !f.renew {
		return f.report.add(cmd, files, "kept", "for member "+name+" (--renew makes it anew)", time.Time{})
	}
	if _, err := os.Stat(f.dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s: 'globalfs certs init --cluster NAME --dir %s' makes it, and the CA of the cluster", f.dir, f.dir)
	}
	written, err := identity.IssueEtcd(f.dir, name, f.hosts, f.validity())
	if err != nil {
		return command.InputError(err)
	}
	for i, w := range written {
		whose := "for all servers"
		if i > 0 {
			whose = "for member " + name + " at " + strings.Join(f.hosts, ", ")
		}
		if err := f.report.add(cmd, w, "made", whose, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}
