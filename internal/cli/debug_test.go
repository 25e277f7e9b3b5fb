package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

// unpacked returns the parts of an archive.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	parts := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		name, err := filepath.Rel("report", h.Name)
		require.NoError(t, err)
		parts[name] = string(content)
	}
}

// An archive has the state of the cluster and of each server, and no secrets.
func TestDebugBundle(t *testing.T) {
	_, config := clusterHere(t, 0)
	dir := t.TempDir()
	log := filepath.Join(dir, "my.log")
	require.NoError(t, os.WriteFile(log, []byte("level=INFO msg=hello\npassword: swordfish\n"), 0o600))
	t.Setenv("GLOBALFS_TOKEN", "sesame")
	file := filepath.Join(dir, "report.tar.gz")
	var said bundled
	require.NoError(t, json.Unmarshal([]byte(run(t, "debug", "bundle", "-o", "json", "--config", config, "--log", log, file)), &said))
	require.Equal(t, file, said.File)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	parts := unpacked(t, file)
	var h daemon.Health
	require.NoError(t, json.Unmarshal([]byte(parts["status.json"]), &h))
	require.Len(t, h.Servers, 3)
	require.Contains(t, parts["status.txt"], "SERVER")
	require.Contains(t, parts["version.json"], `"go"`)
	require.Contains(t, parts["cluster.yaml"], "regions")
	require.Contains(t, parts["settings.txt"], "default")
	require.Contains(t, parts["host.txt"], "MemTotal")
	for _, s := range h.Servers {
		require.Contains(t, parts["servers/"+s.Name+"/goroutines.txt"], "goroutine profile: total")
		require.Contains(t, parts["servers/"+s.Name+"/metrics.txt"], "globalfs_")
	}
	for name, content := range parts {
		require.NotContains(t, content, "swordfish", name)
		require.NotContains(t, content, "sesame", name)
		if name != "errors.txt" {
			require.Contains(t, said.Parts, name)
		}
	}
	require.Contains(t, fails(t, command.ExitFailure, "debug", "bundle", "--config", config, file), "name another FILE")
	require.Contains(t, fails(t, command.ExitUsage, "debug", "bundle", "a", "b"), "takes one FILE")
}

// Without a cluster there is an archive, too; it lists the missing parts.
func TestDebugBundleWithoutServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	text := run(t, "debug", "bundle", "--connect-timeout", "100ms", "--servers", registrytest.FreeAddress(t), "--log", "/none", file)
	require.Contains(t, text, "missing")
	parts := unpacked(t, file)
	require.Contains(t, parts["errors.txt"], "status.txt: no server of the cluster answers")
	require.Contains(t, parts["errors.txt"], "logs/none: open /none: no such file")
	require.Contains(t, parts["version.json"], `"go"`)
}

func TestConfigShow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	run(t, "init", "--name", "prod", "--etcd", "http://127.0.0.1:2379", "--force", path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^durability:.*\n`).ReplaceAll(text, nil)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	var settings []setting
	require.NoError(t, json.Unmarshal([]byte(run(t, "config", "show", "-o", "json", "--config", path)), &settings))
	of := map[string]setting{}
	for _, s := range settings {
		of[s.Name] = s
	}
	require.Equal(t, "prod", of["name"].Value)
	require.Regexp(t, `cluster\.yaml:\d+$`, of["name"].Source)
	require.Equal(t, setting{Name: "durability", Value: "sync", Source: "default"}, of["durability"])
	require.NotContains(t, of, "version")
	require.Regexp(t, `(?m)^SETTING +VALUE +SOURCE$`, run(t, "config", "show", "--config", path))

	t.Setenv("GLOBALFS_CACHE_SIZE", "10G")
	require.Regexp(t, `--cache-size +10G +GLOBALFS_CACHE_SIZE`, run(t, "config", "show", "mount"))
	require.Regexp(t, `--supervise +false +default`, run(t, "config", "show", "mount"))
	require.Contains(t, run(t, "config", "show", "certs", "show"), "--output")
	require.Contains(t, fails(t, command.ExitUsage, "config", "show", "mont"), `there is no command "mont"`)
	require.Contains(t, fails(t, command.ExitInput, "config", "show", "--config", path+"x"), "'globalfs init' writes such a file")
}

func TestSecretsAreHidden(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n  password: x y\nb: 2\n":          "a: 1\n  password: (hidden)\nb: 2\n",
		"secret_access_key = abc":                "secret_access_key = (hidden)",
		`"token": "abc",`:                        `"token": (hidden)`,
		"endpoints: [https://me:pw@etcd:2379]":   "endpoints: [https://me:(hidden)@etcd:2379]",
		"password_file: /etc/pw":                 "password_file: /etc/pw",
		"x\n-----BEGIN EC PRIVATE KEY-----\nabc": "left out: it has a private key\n",
		"http://10.0.0.1:80/a":                   "http://10.0.0.1:80/a",
	} {
		require.Equal(t, want, string(withoutSecrets([]byte(text))))
	}
	require.Equal(t, hidden, withoutSecret("registry.password", "x"))
	require.Equal(t, "/f", withoutSecret("registry.password_file", "/f"))
	require.Equal(t, "https://u:(hidden)@h", withoutSecret("endpoint", "https://u:p@h"))
}
