package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/server"
)

// serverFlags are the flags of `server`.
type serverFlags struct {
	config, dataDir, listen, metrics, profiler, device string
	insecure                                           bool
}

func newServer(logging *logFlags) *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server NAME",
		Short: "Run one server of a cluster",
		Long: `server runs the server NAME of the cluster that the cluster file describes: its replicas and its storage server. It runs until it gets
SIGINT or SIGTERM. A server needs etcd when it starts, and learns of changes of the cluster from it. Files are served also without etcd.`,
		Example: `  globalfs server us-west-2a --config /etc/globalfs/cluster.yaml
  globalfs server us-west-2a --config cluster.yaml --data-dir /data --metrics 127.0.0.1:9464`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(errors.New("server: give the NAME of one server of the cluster file"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			logger, err := logging.logger()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), logger)
		},
	}
	arguments(cmd, serverNames)
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the cluster file (default: "+defaultConfigs+")")
	flags.StringVar(&f.dataDir, "data-dir", "", "directory with a directory for each server of this host (default: data_dir of the cluster file)")
	flags.StringVar(&f.listen, "listen", "", "HOST:PORT to listen at, such as 0.0.0.0:7420 (default: the server's address in the cluster file)")
	flags.StringVar(&f.metrics, "metrics", "", "serve /metrics, /healthz and /readyz at this address, such as 127.0.0.1:9464 (no authentication)")
	flags.StringVar(&f.device, "rdma-device", "", "the RDMA device for multicast: {fabric: verbs}, such as mlx5_0 (default: the first one)")
	flags.BoolVar(&f.insecure, "insecure", false, "accept etcd by http on other hosts: anybody on the network between can change the cluster")
	flags.StringVar(&f.profiler, "pprof", "", "serve Go's profiler at this loopback address, such as 127.0.0.1:6060")
	return cmd
}

// defaultConfigs are the default places of the cluster file.
const defaultConfigs = "./cluster.yaml, /etc/globalfs/cluster.yaml"

// defaultConfig returns the first existing one of defaultConfigs; empty: there is none.
func defaultConfig() string {
	for path := range strings.SplitSeq(defaultConfigs, ", ") {
		if isThere(path) {
			return path
		}
	}
	return ""
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// errNoConfig is the error of a command that finds no cluster file.
var errNoConfig = command.InputError(errors.New("there is no cluster file in " + defaultConfigs + ": give --config FILE. 'globalfs init' writes the file of a new cluster, " +
	"and 'globalfs dev --data-dir DIR' writes DIR/cluster.yaml"))

// readConfig reads a cluster file; empty path: the file in a default place.
func readConfig(path string) (*daemon.File, error) {
	if path == "" {
		if path = defaultConfig(); path == "" {
			return nil, errNoConfig
		}
	}
	f, err := daemon.ReadFile(path)
	if err != nil {
		return nil, command.InputError(err)
	}
	return f, nil
}

func (f *serverFlags) run(ctx context.Context, name string, out io.Writer, logger *slog.Logger) (err error) {
	file, err := readConfig(f.config)
	if err != nil {
		return err
	}
	if f.dataDir != "" {
		if file.DataDir, err = filepath.Abs(f.dataDir); err != nil {
			return err
		}
	}
	file.Registry.Insecure = file.Registry.Insecure || f.insecure
	if err := server.CheckMemory(file.Multicast, f.device); err != nil {
		return command.InputError(err)
	}
	if err := checkServer(file, name, logger); err != nil {
		return err
	}
	stop, err := serveProfiles(f.profiler)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var checks laterHandler
	stopHTTP, err := serveHTTP("--metrics", f.metrics, &checks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopHTTP()) }()
	s, err := daemon.StartServer(ctx, daemon.ServerConfig{File: file, Name: name, Listen: f.listen, Build: command.Version(), Device: f.device, Logger: logger})
	if err != nil {
		return err
	}
	checks.set(health(s))
	fmt.Fprintf(out, "ready: server %s at %s\n", name, s.Address())
	notifyReady()
	return s.Run(ctx)
}

// health returns the handler for supervisors and Prometheus.
func health(s *daemon.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", s.Metrics().Handler())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if missing := s.Unready(r.Context()); missing != "" {
			http.Error(w, missing, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// checkServer refuses a server that cannot start, before any call of etcd.
func checkServer(file *daemon.File, name string, logger *slog.Logger) error {
	plan, err := file.Plan()
	if err != nil {
		return command.InputError(err)
	}
	names := make([]string, len(plan.Servers))
	for i, s := range plan.Servers {
		names[i] = s.Name
	}
	if plan.Server(name) == nil && file.Certificates != "" && !isThere(identity.FilesIn(file.Certificates, identity.Server, name).Certificate) {
		return command.InputError(fmt.Errorf("there is no server %q in the cluster file, which has %s%s; one that joined later needs its certificate first: 'globalfs certs server %s' on the machine of the CA",
			name, strings.Join(names, ", "), command.Suggest(name, names), name))
	}
	if file.Certificates != "" {
		if _, err := identity.Load(identity.FilesIn(file.Certificates, identity.Server, name), logger); err != nil {
			if missing := new(fs.PathError); errors.Is(err, fs.ErrNotExist) && errors.As(err, &missing) {
				err = fmt.Errorf("%s is missing: 'globalfs certs servers' makes the certificates of all servers (%s)", missing.Path, strings.Join(names, ", "))
			}
			return command.InputError(fmt.Errorf("server %s: %w", name, err))
		}
	}
	if err := os.MkdirAll(file.DataDir, 0o755); err != nil {
		return command.InputError(fmt.Errorf("data_dir: %w: give another directory with --data-dir", err))
	}
	if plan.Server(name) == nil && !isThere(filepath.Join(file.DataDir, name)) {
		logger.Warn("the cluster file does not have this server: asking the registry whether it joined later", "server", name)
	}
	return nil
}
