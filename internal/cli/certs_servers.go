package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
)

// serversFlags are the flags of `certs servers`.
type serversFlags struct {
	certsFlags
	config  string
	etcd    bool
	clients []string
}

// newCertsServers makes the command for the CA and the certificates of all servers of a cluster file.
func newCertsServers() *cobra.Command {
	var f serversFlags
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Make the CA and the certificates of all servers of a cluster file",
		Long: `servers reads the cluster file. It makes the CA of the cluster, if there is none yet, and a certificate for each server. The certificates
contain the host names and addresses of the file. They go into the directory that the cluster file names, or into --dir.
It keeps valid certificates: repeat the command after you have added a server to the file.

With --etcd it also makes the certificates of 'globalfs certs etcd': one for each endpoint of the file, named after its host. With
--client it also makes those of 'globalfs certs client'.`,
		Example: `  globalfs certs servers --config cluster.yaml
  globalfs certs servers --etcd --client laptop
  globalfs certs servers --config cluster.yaml --dir /root/globalfs-certs --renew`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd, int(identity.LeafValidity/(24*time.Hour)))
	cmd.Flags().StringVar(&f.config, "config", "", "the cluster file (default: "+defaultConfigs+")")
	cmd.Flags().BoolVar(&f.etcd, "etcd", false, "also make the certificates of the members of etcd")
	cmd.Flags().StringSliceVar(&f.clients, "client", nil, "also make the certificate of the client with this name; may be repeated")
	cmd.Flags().BoolVar(&f.root, "root", false, "with --client: allow the clients to act for root: no root squash")
	return cmd
}

func (f *serversFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.root && len(f.clients) == 0 {
		return command.UsageError(errors.New("--root: name a client with --client"))
	}
	file, err := readConfig(f.config)
	if err != nil {
		return err
	}
	members, err := f.members(file)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("dir") && file.Certificates != "" {
		f.dir = file.Certificates
	}
	if err := f.makeServers(cmd, file); err != nil {
		return err
	}
	for _, host := range members {
		one := f.certsFlags
		one.hosts = []string{host}
		if err := one.etcd(cmd, host); err != nil {
			return err
		}
	}
	for _, name := range f.clients {
		one := f.certsFlags
		one.uids, one.gids = notRoot, notRoot
		if err := one.run(identity.Client)(cmd, []string{name}); err != nil {
			return err
		}
	}
	return nil
}

// members returns the hosts of the members of etcd that need certificates.
func (f *serversFlags) members(file *daemon.File) (hosts []string, err error) {
	if !f.etcd {
		return nil, nil
	}
	for _, e := range file.Registry.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Scheme != "https" {
			return nil, command.InputError(fmt.Errorf("--etcd: endpoint %q is not https, and needs no certificate: leave --etcd out, or give https endpoints in the cluster file", e))
		}
		hosts = append(hosts, u.Hostname())
	}
	return hosts, nil
}

// makeServers makes the CA and the certificates of the servers.
func (f *certsFlags) makeServers(cmd *cobra.Command, file *daemon.File) error {
	plan, err := file.Plan()
	if err != nil {
		return command.InputError(err)
	}
	ca := certsFlags{dir: f.dir, days: int(identity.CAValidity / (24 * time.Hour)), cluster: file.Name, report: f.report}
	if err := ca.makeCA(cmd); err != nil {
		return err
	}
	for _, s := range plan.Servers {
		one := *f
		if host, _, err := net.SplitHostPort(s.Address); err == nil {
			one.hosts = []string{host}
		}
		if err := one.run(identity.Server)(cmd, []string{s.Name}); err != nil {
			return err
		}
	}
	return nil
}
