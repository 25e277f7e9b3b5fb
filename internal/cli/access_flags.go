package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/identity"
)

// accessFlags are the flags by which a command finds a cluster.
type accessFlags struct {
	config  string
	servers []string
	certs   certsChoice
	connect time.Duration
}

func (f *accessFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the cluster file, which names servers and certificates (default: "+defaultConfigs+", or that of 'globalfs dev')")
	flags.StringSliceVar(&f.servers, "servers", nil, "HOST:PORT of some servers, instead of a cluster file; one that answers is enough")
	command.DurationVar(flags, &f.connect, "connect-timeout", 10*time.Second, "how long to wait for a server")
	f.certs.register(cmd)
}

// open connects to the cluster with the certificate of the first of the roles for which there is one.
func (f *accessFlags) open(ctx context.Context, logger *slog.Logger, roles ...identity.Role) (*daemon.Access, error) {
	cfg := daemon.AccessConfig{Servers: f.servers, Timeout: f.connect, Logger: logger}
	configured, path := "", ""
	if len(cfg.Servers) == 0 {
		path = cmp.Or(f.path(), defaultConfig())
		file, err := readConfig(path)
		if err != nil {
			return nil, err
		}
		for _, address := range file.Addresses {
			cfg.Servers = append(cfg.Servers, address)
		}
		configured = cmp.Or(file.Certificates, noCerts)
	}
	var err error
	if cfg.Certificates, err = f.certs.find(configured, roles...); err != nil {
		return nil, err
	}
	if err := checkServers(ctx, cfg.Servers, cfg.Certificates != identity.Files{}, f.connect); err != nil {
		return nil, err
	}
	a, err := daemon.Connect(ctx, cfg)
	if err != nil && path != "" {
		err = fmt.Errorf("cluster file %s: %w", path, err)
	}
	return a, err
}

// path returns the path of the cluster file: that of --config, or that of the embedded cluster if no default
// place has a cluster file. Otherwise it returns "", which stands for the default places.
func (f *accessFlags) path() string {
	if f.config != "" || defaultConfig() != "" {
		return f.config
	}
	if path := dev.DefaultFile(); isThere(path) {
		return path
	}
	return ""
}
