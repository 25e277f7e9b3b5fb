package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/identity"
)

// accessFlags say how a command finds a cluster.
type accessFlags struct {
	config  string
	servers []string
	certs   string
	connect time.Duration
}

func (f *accessFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the cluster file, which names servers and certificates (default: "+defaultConfigs+", or that of 'globalfs dev')")
	flags.StringSliceVar(&f.servers, "servers", nil, "HOST:PORT of some servers instead of a cluster file: one that answers is enough")
	flags.DurationVar(&f.connect, "connect-timeout", 10*time.Second, "how long is waited for a server")
	f.registerCerts(cmd)
}

func (f *accessFlags) registerCerts(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.certs, "certs", "", "directory with ca.pem and a certificate that 'globalfs certs' has made")
}

// open connects with the certificate of the first role that there is one of.
func (f *accessFlags) open(ctx context.Context, logger *slog.Logger, roles ...identity.Role) (*daemon.Access, error) {
	cfg := daemon.AccessConfig{Servers: f.servers, Timeout: f.connect, Logger: logger}
	certs := f.certs
	if len(cfg.Servers) == 0 {
		file, err := readConfig(f.path())
		if err != nil {
			return nil, err
		}
		for _, address := range file.Addresses {
			cfg.Servers = append(cfg.Servers, address)
		}
		if certs == "" {
			certs = file.Certificates
		}
	}
	if certs != "" {
		files, err := findCertificate(certs, roles...)
		if err != nil {
			return nil, command.InputError(err)
		}
		cfg.Certificates = files
	}
	return daemon.Connect(ctx, cfg)
}

// path gives that of the cluster file: if there is none in the default places, that of the embedded cluster.
// Empty: the default places.
func (f *accessFlags) path() string {
	if f.config != "" || defaultConfig() != "" {
		return f.config
	}
	if path := dev.DefaultFile(); isThere(path) {
		return path
	}
	return ""
}

// findCertificate gives the one certificate of the first role that has one.
func findCertificate(dir string, roles ...identity.Role) (identity.Files, error) {
	var errs []error
	for _, role := range roles {
		files, err := identity.Find(dir, role)
		if err == nil {
			return files, nil
		}
		errs = append(errs, err)
	}
	return identity.Files{}, errors.Join(errs...)
}
