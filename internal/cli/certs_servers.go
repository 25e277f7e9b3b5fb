package cli

import (
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
)

// newCertsServers makes the command for the CA and the certificates of all servers of a cluster file.
func newCertsServers() *cobra.Command {
	var f certsFlags
	var config string
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Make the CA and the certificates of all servers of a cluster file",
		Long: `servers reads the cluster file and makes the CA of the cluster, if there is none yet, and a certificate for each server.
The host names and addresses in the file are added to the certificates. The directory is that of the cluster file unless --dir is given.
Valid certificates are kept, so the command can be repeated after a server was added to the file.`,
		Example: `  globalfs certs servers --config cluster.yaml
  globalfs certs servers --config cluster.yaml --dir /root/globalfs-certs --renew`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.makeServers(cmd, config) },
	}
	f.register(cmd, int(identity.LeafValidity/(24*time.Hour)))
	cmd.Flags().StringVar(&config, "config", "", "the cluster file (default: "+defaultConfigs+")")
	return cmd
}

func (f *certsFlags) makeServers(cmd *cobra.Command, config string) error {
	if err := f.check(); err != nil {
		return err
	}
	file, err := readConfig(config)
	if err != nil {
		return err
	}
	plan, err := file.Plan()
	if err != nil {
		return command.InputError(err)
	}
	if !cmd.Flags().Changed("dir") && file.Certificates != "" {
		f.dir = file.Certificates
	}
	ca := certsFlags{dir: f.dir, days: int(identity.CAValidity / (24 * time.Hour)), cluster: file.Name}
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
