package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A connection of the wrong kind is explained at once, in both directions.
func TestMismatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	run(t, "certs", "init", "--dir", dir, "--cluster", "test")
	run(t, "certs", "client", "--dir", dir, "laptop")
	run(t, "certs", "client", "--dir", dir, "desk")
	run(t, "certs", "server", "--dir", dir, "n1")
	listen := func(cfg transport.Config) string {
		cfg.Address = "127.0.0.1:0"
		cfg.Resolve = func(multicast.ProcessID) (string, bool) { return "", false }
		s, err := transport.Listen(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s.Address()
	}
	plain := listen(transport.Config{})
	credentials, err := identity.Load(identity.FilesIn(dir, identity.Server, "n1"), nil)
	require.NoError(t, err)
	encrypted := listen(transport.Config{Credentials: credentials})

	status := []string{"status", "--connect-timeout", "10m", "--servers"}
	require.Contains(t, fails(t, command.ExitFailure, append(status, plain, "--certs", dir, "--name", "desk")...), "server "+plain+" has no certificate and accepts only unencrypted connections: give --certs none")
	require.Contains(t, fails(t, command.ExitFailure, append(status, encrypted, "--certs", "none")...), "server "+encrypted+" accepts only TLS: give the directory")
	other := filepath.Join(t.TempDir(), "other")
	run(t, "certs", "init", "--dir", other, "--cluster", "other")
	run(t, "certs", "client", "--dir", other, "laptop")
	require.Contains(t, fails(t, command.ExitFailure, "status", "--connect-timeout", "5s", "--servers", encrypted, "--certs", other), "server "+encrypted+" has a certificate of another CA")
	require.Contains(t, fails(t, command.ExitInput, append(status, plain, "--certs", dir)...), "choose one with --name NAME")
	require.Contains(t, fails(t, command.ExitUsage, append(status, plain, "--name", "desk")...), "--certs DIR")
}

// One command makes the certificates of all servers of a file. It can be repeated.
func TestCertsServers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.yaml")
	out := run(t, "init", "--name", "prod", "--regions", "a,b,c", "--datacenters", "1", "--address", "aa=10.0.0.2:7420", path)
	require.Contains(t, out, "globalfs certs servers --config "+path+"\n")
	require.Contains(t, out, "globalfs mount --mkdir 10.0.0.2:7420,ba.example.com:7420,ca.example.com:7420 /mnt/globalfs --certs "+filepath.Join(dir, "certs")+"\n")
	require.Contains(t, run(t, "certs", "servers", "--config", path), "made, globalfs://prod/server/ba")
	require.Contains(t, run(t, "certs", "servers", "--config", path), "kept, globalfs://prod/server/ba")
	all, err := identity.ReadCertificates(filepath.Join(dir, "certs", "server-aa.pem"))
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.2"}, hostsOf(all[0]))
	require.Contains(t, fails(t, command.ExitInput, "certs", "servers", "--config", filepath.Join(dir, "none")), "'globalfs init' writes such a file")
	require.Contains(t, fails(t, command.ExitInput, "server", "zz", "--config", path), "there is no server \"zz\" in the cluster file, which has aa, ba, ca")
}

// One command makes all certificates that a new cluster needs, and keeps them when it is repeated.
func TestCertsServersOfAWholeCluster(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.yaml")
	certs := filepath.Join(dir, "certs")
	all := []string{"certs", "servers", "--etcd", "--client", "laptop", "--root", "--config", path}
	run(t, "init", path)
	require.Contains(t, fails(t, command.ExitInput, all...), "not https")
	require.NoDirExists(t, certs)
	out := run(t, "init", "--force", "--etcd", "https://etcd1:2379,https://10.0.0.9:2379", path)
	require.Contains(t, out, "globalfs certs servers --etcd --config "+path+"\n")
	require.Contains(t, fails(t, command.ExitUsage, "certs", "servers", "--root", "--config", path), "--client")
	for _, what := range []string{"made", "kept"} {
		out := run(t, all...)
		for _, name := range []string{"server-eu-west-1c", "etcd-etcd1", "etcd-10.0.0.9", "client-laptop"} {
			require.Contains(t, out, filepath.Join(certs, name+".pem")+": "+what)
		}
	}
	member, err := identity.ReadCertificates(filepath.Join(certs, "etcd-10.0.0.9.pem"))
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.9"}, hostsOf(member[0]))
	laptop, err := identity.Load(identity.FilesIn(certs, identity.Client, "laptop"), nil)
	require.NoError(t, err)
	require.Equal(t, "globalfs://globalfs/client/laptop?uids=0-4294967295&gids=0-4294967295", laptop.Identity().String())
}
