package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
)

func TestCertsWrongInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"command":      {[]string{"certs", "frob"}, command.ExitUsage, `unknown command "frob"`},
		"no cluster":   {[]string{"certs", "init", "--dir", dir}, command.ExitUsage, "with --cluster"},
		"bad cluster":  {[]string{"certs", "init", "--dir", dir, "--cluster", "a/b"}, command.ExitInput, "letters, digits"},
		"init days":    {[]string{"certs", "init", "--dir", dir, "--cluster", "a", "--days", "0"}, command.ExitInput, "give 1 to 36500"},
		"no CA":        {[]string{"certs", "server", "--dir", dir, "n1"}, command.ExitFailure, "'globalfs certs init --cluster NAME --dir " + dir + "' makes one"},
		"no name":      {[]string{"certs", "server", "--dir", dir}, command.ExitUsage, "give one NAME"},
		"two names":    {[]string{"certs", "client", "a", "b"}, command.ExitUsage, "give one NAME"},
		"no CA's key":  {[]string{"certs", "rotate-vector-key", "--dir", dir}, command.ExitFailure, "the CA's key is not in " + dir},
		"show nothing": {[]string{"certs", "show"}, command.ExitUsage, "give at least one FILE"},
		"show output":  {[]string{"certs", "show", "-o", "xml", dir}, command.ExitInput, "give text or json"},
		"show none":    {[]string{"certs", "show", filepath.Join(dir, "none")}, command.ExitFailure, "no such file"},
	} {
		require.Contains(t, fails(t, c.code, c.args...), c.says, name)
	}
	require.NoDirExists(t, dir)

	run(t, "certs", "init", "--dir", dir, "--cluster", "prod")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"another cluster": {[]string{"init", "--cluster", "test"}, command.ExitInput, "is the CA of cluster prod"},
		"name":            {[]string{"server", "a/b"}, command.ExitInput, "give 1 to 63 letters"},
		"key":             {[]string{"server", "a-key"}, command.ExitInput, "must not end in -key"},
		"host":            {[]string{"server", "a", "--host", "h:7000"}, command.ExitInput, "without a port"},
		"uids":            {[]string{"client", "a", "--uids", "root"}, command.ExitInput, `--uids: "root": give numbers`},
		"gids":            {[]string{"client", "a", "--gids", "5-1"}, command.ExitInput, "--gids:"},
		"days":            {[]string{"admin", "a", "--days", "36501"}, command.ExitInput, "give 1 to 36500"},
	} {
		require.Contains(t, fails(t, c.code, append([]string{"certs", "--dir", dir}, c.args...)...), c.says, name)
	}
}

// Processes can load the files that 'globalfs certs' makes.
func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	certs := func(args ...string) string {
		t.Helper()
		return run(t, append([]string{"certs", "--dir", dir}, args...)...)
	}
	require.Contains(t, certs("init", "--cluster", "prod"), "made, the CA of cluster prod")
	require.Contains(t, certs("server", "n1", "--host", "n1.example.org,10.0.0.1"), "made, globalfs://prod/server/n1")
	certs("admin", "alice", "--days", "7")
	certs("client", "laptop")
	certs("client", "web", "--uids", "1000-1999,33", "--gids", "33")
	certs("client", "backup", "--root", "--uids", "", "--gids", "100")
	for role, names := range map[identity.Role]map[string]string{
		identity.Server: {"n1": ""},
		identity.Admin:  {"alice": ""},
		identity.Client: {
			"laptop": "?uids=1-4294967295&gids=1-4294967295",
			"web":    "?uids=33,1000-1999&gids=33",
			"backup": "?uids=0&gids=0,100",
		},
	} {
		for name, whom := range names {
			c, err := identity.Load(identity.FilesIn(dir, role, name), nil)
			require.NoError(t, err)
			require.Equal(t, "globalfs://prod/"+string(role)+"/"+name+whom, c.Identity().String())
		}
	}

	files, err := filepath.Glob(filepath.Join(dir, "*.pem"))
	require.NoError(t, err)
	require.Len(t, files, 11, "the CA's key is in the directory beside")
	require.FileExists(t, filepath.Join(dir+"-ca", "ca-key.pem"))
	var shown []shownCertificate
	require.NoError(t, json.Unmarshal([]byte(run(t, append([]string{"certs", "show", "-o", "json"}, files...)...)), &shown))
	require.Len(t, shown, 6, "keys are passed over")
	require.Equal(t, "alice", shown[0].Name)
	require.Equal(t, 6, shown[0].DaysLeft, "full days")
	require.Equal(t, []string{"n1.example.org", "10.0.0.1"}, shown[5].Hosts)
	text := run(t, append([]string{"certs", "show"}, files...)...)
	require.Contains(t, text, "uids 33,1000-1999 gids 33")
	require.NotContains(t, text, "-key.pem")
}

// A repeated command changes nothing. --renew makes a new certificate with the old values of flags that are
// not given.
func TestCertsAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	certs := func(args ...string) string {
		t.Helper()
		return run(t, append([]string{"certs", "--dir", dir}, args...)...)
	}
	refuses := func(code int, args ...string) string {
		t.Helper()
		return fails(t, code, append([]string{"certs", "--dir", dir}, args...)...)
	}
	first := [][]string{
		{"init", "--cluster", "prod"}, {"server", "n1", "--host", "a,b"}, {"client", "web", "--uids", "33"}, {"admin", "alice"},
	}
	for _, args := range first {
		certs(args...)
	}
	before := contents(t, dir)
	for _, args := range append(first, []string{"init"}, []string{"server", "n1"}, []string{"server", "n1", "--host", "b,a"}, []string{"client", "web"}) {
		require.Contains(t, certs(args...), "kept", "%q", args)
	}
	require.Equal(t, before, contents(t, dir))
	require.Contains(t, refuses(command.ExitInput, "client", "web", "--uids", "34"), "and not of globalfs://prod/client/web?uids=34")
	require.Contains(t, refuses(command.ExitInput, "server", "n1", "--host", "c"), "names the hosts [a b]")
	require.Equal(t, before, contents(t, dir))

	require.Contains(t, certs("client", "web", "--renew"), "made, globalfs://prod/client/web?uids=33&gids=1-4294967295")
	require.Contains(t, certs("client", "web", "--renew", "--root"), "made, globalfs://prod/client/web?uids=0,33&gids=0-4294967295")
	certs("server", "n1", "--renew")
	certs("init", "--renew")
	after := contents(t, dir)
	for _, name := range []string{"ca.pem", "server-n1.pem", "server-n1-key.pem", "client-web.pem"} {
		require.NotEqual(t, before[name], after[name], name)
	}
	for _, name := range []string{"admin-alice.pem", "admin-alice-key.pem"} {
		require.Equal(t, before[name], after[name], name)
	}
	require.Contains(t, run(t, "certs", "show", filepath.Join(dir, "server-n1.pem")), "[a b]")
	_, err := identity.Load(identity.FilesIn(dir, identity.Admin, "alice"), nil)
	require.NoError(t, err, "signed by the old certificate of the same CA")

	require.NoError(t, os.Remove(filepath.Join(dir, "admin-alice-key.pem")))
	require.Contains(t, refuses(command.ExitFailure, "admin", "alice"), "--renew creates both again")
	require.Contains(t, certs("admin", "alice", "--renew"), "made")
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.pem")))
	require.Contains(t, refuses(command.ExitFailure, "init", "--cluster", "prod"), "restore the other one")
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = string(data)
	}
	return all
}

// A rotation names the files to copy to their hosts.
func TestCertsRotateVectorKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	run(t, "certs", "init", "--dir", dir, "--cluster", "prod")
	run(t, "certs", "server", "n1", "--dir", dir)
	run(t, "certs", "client", "laptop", "--dir", dir)
	key := identity.FilesIn(dir, identity.Server, "n1").Key
	before, err := os.ReadFile(key)
	require.NoError(t, err)
	require.Equal(t, key+": new vector key; copy the file to its host\n", run(t, "certs", "rotate-vector-key", "--dir", dir))
	after, err := os.ReadFile(key)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	var named struct{ Files []string }
	require.NoError(t, json.Unmarshal([]byte(run(t, "certs", "rotate-vector-key", "--dir", dir, "-o", "json")), &named))
	require.Equal(t, []string{key}, named.Files)

	require.NoError(t, os.WriteFile(key, before, 0o600))
	require.Contains(t, run(t, "certs", "server", "n1", "--dir", dir), "kept, with the CA's vector keys")
	require.NotContains(t, run(t, "certs", "server", "n1", "--dir", dir), "vector keys")
}

// An expired certificate is not kept without an error, and show reports it.
func TestCertsExpired(t *testing.T) {
	dir := t.TempDir()
	ca, err := identity.NewCA("prod", -time.Hour)
	require.NoError(t, err)
	require.NoError(t, identity.SaveCA(dir, ca, false))
	require.Contains(t, fails(t, command.ExitFailure, "certs", "init", "--dir", dir), "--renew renews it")
	require.Contains(t, fails(t, command.ExitInput, "certs", "admin", "--dir", dir, "a"), "certs init --renew")
	var out, errs bytes.Buffer
	require.Equal(t, command.ExitOK, Main([]string{"certs", "show", filepath.Join(dir, "ca.pem")}, &out, &errs))
	require.Contains(t, out.String(), "expired")
	require.Contains(t, run(t, "certs", "init", "--dir", dir, "--renew"), "made")
	require.Contains(t, run(t, "certs", "admin", "--dir", dir, "a"), "made")
}
