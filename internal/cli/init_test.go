package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
)

func TestInit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	require.Contains(t, run(t, "init", "--name", "prod", "--regions", "a,b", "--datacenters", "3", "--address", "ab=10.0.0.2:7420", path), "6 servers in 2 regions")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "\n  ab: 10.0.0.2:7420\n")
	require.Contains(t, string(text), "\n  bc: bc.example.com:7420\n")
	checked := run(t, "init", "--check", path)
	require.Regexp(t, `2 +/b +local to b +ba bb bc`, checked)
	require.Contains(t, checked, "is right")

	one := run(t, "init", "--regions", "a", "--datacenters", "1", path+"1")
	require.Contains(t, one, "1 server in 1 region.")
	require.Contains(t, run(t, "init", "--regions", "a", "--force", path+"1"), "mount --mkdir aa.example.com:7420,ab.example.com:7420,ac.example.com:7420 /mnt")

	require.Contains(t, fails(t, command.ExitInput, "init", path), "--force")
	run(t, "init", "--force", "--loopback", "7420", "--datacenters", "1", "--replicas", "1", "--copies", "1", path)
	require.Contains(t, run(t, "init", "--check", path), "us-west-2a")
	for from, c := range map[string]struct{ to, says string }{
		"replicas: 1\n":      {"replicas: 2\n", "replicas"},
		"durability: sync\n": {"durabilty: sync\n", "durabilty"},
		"127.0.0.1:7421\n":   {"127.0.0.1\n", "127.0.0.1"},
		"127.0.0.1:7422\n":   {"127.0.0.1:7420\n", "7420"},
		"  grace: 10m0s   #": {"  grace: soon   #", "line"},
	} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), from)
		broken := filepath.Join(t.TempDir(), "broken.yaml")
		require.NoError(t, os.WriteFile(broken, []byte(strings.Replace(string(text), from, c.to, 1)), 0o644))
		said := fails(t, command.ExitInput, "init", "--check", broken)
		require.Contains(t, said, c.says, said)
		require.Contains(t, said, "broken.yaml", said)
	}
	require.Contains(t, fails(t, command.ExitInput, "init", "--check", filepath.Join(t.TempDir(), "none.yaml")), "'globalfs init' writes such a file")
	remote := []string{"init", "--etcd", "http://etcd1:2379", path + "3"}
	require.Contains(t, fails(t, command.ExitInput, remote...), "https://etcd1:2379")
	require.NoFileExists(t, path+"3")
	run(t, append(remote, "--insecure")...)
	run(t, "init", "--check", path+"3")
	run(t, "init", "--force", "--etcd", "https://etcd1:2379", path+"3")
	text, err = os.ReadFile(path + "3")
	require.NoError(t, err)
	require.Contains(t, string(text), "\n  ca: \"certs/etcd-ca.pem\"\n")
	clear := strings.Replace(string(text), "https://etcd1", "http://etcd1", 1)
	require.NoError(t, os.WriteFile(path+"3", []byte(clear), 0o644))
	require.Contains(t, fails(t, command.ExitInput, "init", "--check", path+"3"), "'insecure: true'")
	require.Contains(t, fails(t, command.ExitInput, "init", "--address", "nobody=1.2.3.4:5", path+"2"), "no such server")
	require.Contains(t, fails(t, command.ExitInput, "init", "--replicas", "4", path+"2"), "replicas")
	require.NoFileExists(t, path+"2")
}
