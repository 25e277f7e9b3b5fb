package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
)

// maxPort is the last port of TCP.
const maxPort = 65535

// initFlags are the flags of `init`.
type initFlags struct {
	file      daemon.File
	regions   []string
	addresses map[string]string
	loopback  int
	force     bool
	check     bool
	output    string

	servers []string // names of the servers, set by locate
}

func newInit() *cobra.Command {
	f := initFlags{file: daemon.DefaultFile()}
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write the cluster file of a new cluster",
		Long: `init writes the file that describes a cluster (default: cluster.yaml), with a comment on each line. Copy the same file to all
servers. A server without --address gets the address NAME.example.com:7420: edit it. With --loopback all servers are on this machine.
With --check it writes nothing. It reports errors in FILE, or prints the servers and partitions of the cluster.`,
		Example: `  globalfs init --name prod --regions us-west-2,us-east-1,eu-west-1 --etcd https://etcd1.example.com:2379
  globalfs init --loopback 7420 --datacenters 1 try.yaml
  globalfs init --name prod --address us-west-2a=10.1.0.1:7420 --address us-west-2b=10.1.0.2:7420
  globalfs init --check cluster.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError(fmt.Errorf("%s: give one FILE", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, append(args, "cluster.yaml")[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file.Name, "name", "globalfs", "name of the cluster, in certificates and in the registry")
	flags.StringSliceVar(&f.regions, "regions", []string{"us-west-2", "us-east-1", "eu-west-1"}, "names of the regions")
	flags.IntVar(&f.file.Datacenters, "datacenters", f.file.Datacenters, "number of datacenters in each region, with one server in each")
	flags.IntVar(&f.file.Replicas, "replicas", f.file.Replicas, "number of replicas of each partition: 1, 3 or 5 (at most one in each datacenter)")
	flags.IntVar(&f.file.Partitions, "partitions", 1, "number of partitions of each region, over which new directories spread; 'admin add-partition' adds more later")
	flags.IntVar(&f.file.GlobalPartitions, "global-partitions", 1, "number of partitions for the directories outside of the regions (more are added later with 'globalfs admin add-partition')")
	flags.IntVar(&f.file.Copies, "copies", f.file.Copies, "number of copies of each block in a region (at most one in each datacenter)")
	flags.Var(&f.file.Multicast.Local, "local-order", "protocol that orders the partitions of a region: primcast, or tram (in one-sided memory; cannot be changed later)")
	flags.StringToStringVar(&f.addresses, "address", nil, "address of a server as SERVER=HOST:PORT; may be repeated")
	flags.StringSliceVar(&f.file.Registry.Endpoints, "etcd", []string{"http://127.0.0.1:2379"}, "endpoints of etcd")
	flags.BoolVar(&f.file.Registry.Insecure, "insecure", false, "accept etcd by http on other hosts: anybody on the network between can change the cluster")
	flags.StringVar(&f.file.Certificates, "certificates", "certs", "directory of 'globalfs certs', relative to the file; empty: none, on loopback only")
	flags.StringVar(&f.file.DataDir, "data-dir", f.file.DataDir, "directory of the servers' data")
	flags.IntVar(&f.loopback, "loopback", 0, "put all servers on 127.0.0.1, on ports from this one on")
	flags.BoolVar(&f.force, "force", false, "overwrite the file")
	flags.BoolVar(&f.check, "check", false, "write nothing and check FILE after an edit")
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *initFlags) run(cmd *cobra.Command, path string) error {
	if f.check {
		if flag := changedBeside(cmd, "check", "output"); flag != "" {
			return command.UsageError(fmt.Errorf("--%s: --check reads FILE as it is: edit the file, or leave out one of the two flags", flag))
		}
		return f.checkFile(cmd.OutOrStdout(), path)
	}
	f.file.Regions = nil
	if f.file.Multicast.Local == topology.LocalPrimCast { // the default, without a key that older versions do not know
		f.file.Multicast.Local = ""
	}
	if f.file.Partitions == 1 && f.file.GlobalPartitions == 1 { // the defaults, which servers before these keys know
		f.file.Partitions, f.file.GlobalPartitions = 0, 0
	}
	f.fit(cmd)
	for _, r := range f.regions {
		f.file.Regions = append(f.file.Regions, topology.Region(r))
	}
	if err := f.locate(); err != nil {
		return command.InputError(err)
	}
	f.encryptEtcd()
	if err := f.file.Validate(); err != nil {
		return command.InputError(err)
	}
	if err := f.file.CheckRegistry(); err != nil {
		return command.InputError(err)
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if f.force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	out, err := os.OpenFile(path, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return command.InputError(fmt.Errorf("%s is there already: name another file, or overwrite it with --force", path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return command.InputError(fmt.Errorf("%w: make the directory first", err))
	}
	if err != nil {
		return err
	}
	_, err = out.WriteString(f.file.Template())
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return f.next(cmd.OutOrStdout(), path)
}

// changedBeside returns a flag that the command line sets other than the named ones; empty: there is none.
func changedBeside(cmd *cobra.Command, names ...string) (found string) {
	own := cmd.LocalNonPersistentFlags()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil && !slices.Contains(names, flag.Name) {
			found = flag.Name
		}
	})
	return found
}

// encryptEtcd sets the certificates of 'globalfs certs etcd' for https endpoints.
func (f *initFlags) encryptEtcd() {
	if f.file.Certificates == "" || !strings.HasPrefix(append(f.file.Registry.Endpoints, "")[0], "https:") {
		return
	}
	files := identity.EtcdFiles(f.file.Certificates)
	f.file.Registry.CA, f.file.Registry.Certificate, f.file.Registry.Key = files.CA, files.Certificate, files.Key
}

// fit lowers the defaults of replicas and copies to the number of datacenters. The number of replicas stays
// odd.
func (f *initFlags) fit(cmd *cobra.Command) {
	if n := f.file.Datacenters; n > 0 && n < f.file.Replicas && !cmd.Flags().Changed("replicas") {
		f.file.Replicas = n - 1 + n%2
	}
	if n := f.file.Datacenters; n > 0 && n < f.file.Copies && !cmd.Flags().Changed("copies") {
		f.file.Copies = n
	}
}

// locate gives each server an address.
func (f *initFlags) locate() error {
	plain := f.file.Spec
	plain.Addresses = nil
	plan, err := plain.Plan()
	if err != nil {
		return err
	}
	if last := maxPort - len(plan.Servers) + 1; f.loopback < 0 || f.loopback > last {
		return fmt.Errorf("--loopback %d: give a port from 1 to %d: each of the %d servers gets a port, from this one on", f.loopback, last, len(plan.Servers))
	}
	f.file.Addresses = map[string]string{}
	for i, s := range plan.Servers {
		f.servers = append(f.servers, s.Name)
		switch address, given := f.addresses[s.Name]; {
		case given:
			f.file.Addresses[s.Name] = address
		case f.loopback != 0:
			f.file.Addresses[s.Name] = net.JoinHostPort("127.0.0.1", strconv.Itoa(f.loopback+i))
		default:
			f.file.Addresses[s.Name] = s.Name + ".example.com:7420"
		}
	}
	for name := range f.addresses {
		if !slices.Contains(f.servers, name) {
			return fmt.Errorf("--address %s: there is no such server%s: give %s", name, command.Suggest(name, f.servers), strings.Join(f.servers, ", "))
		}
	}
	return nil
}
