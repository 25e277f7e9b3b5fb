package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/topology"
)

// Every invalid command line ends at once, with the exit code of its kind and a line with the remedy.
func TestWrongInput(t *testing.T) {
	dir := t.TempDir()
	typo := filepath.Join(dir, "cluster.yaml")
	require.NoError(t, os.WriteFile(typo, []byte("replicas: 3\nregons: [a]\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"command":     {[]string{"frob"}, command.ExitUsage, `unknown command "frob"`},
		"moved":       {[]string{"bench", "multicast"}, command.ExitUsage, `unknown command "multicast"; see 'globalfs bench --help'`},
		"flag":        {[]string{"dev", "--frob"}, command.ExitUsage, "unknown flag: --frob"},
		"argument":    {[]string{"dev", "extra"}, command.ExitUsage, "takes no arguments"},
		"region":      {[]string{"dev", "--mount", "mars=/x"}, command.ExitInput, `there is no region "mars"`},
		"twice":       {[]string{"dev", "--mount", "/x", "--mount", "/x"}, command.ExitInput, "is given twice"},
		"typo":        {[]string{"dev", "--config", typo}, command.ExitInput, "line 2: unknown key \"regons\""},
		"no file":     {[]string{"dev", "--config", filepath.Join(dir, "none")}, command.ExitInput, "no such file"},
		"even":        {[]string{"dev", "--replicas", "4"}, command.ExitInput, "give 1, 3 or 5"},
		"transport":   {[]string{"dev", "--transport", "pigeon"}, command.ExitInput, "give inprocess or grpc"},
		"durability":  {[]string{"dev", "--durability", "none"}, command.ExitInput, "give sync, os or memory"},
		"level":       {[]string{"dev", "--log-level", "loud"}, command.ExitInput, "give debug, info, warn or error"},
		"exposed":     {[]string{"dev", "--pprof", "0.0.0.0:1"}, command.ExitInput, "give a loopback address"},
		"not a dir":   {[]string{"dev", "--data-dir", typo}, command.ExitFailure, "not a directory"},
		"wan":         {[]string{"dev", "--data-dir", dir, "--wan", "--transport", "grpc"}, command.ExitFailure, "without the gRPC transport"},
		"port":        {[]string{"dev", "--metrics", "127.0.0.1:99999"}, command.ExitInput, "a port from 1 to 65535"},
		"dev dir":     {[]string{"dev", "--data-dir", dir, "--mount", typo}, command.ExitInput, "not a directory: give a directory as the mount point"},
		"mount value": {[]string{"mount", "--delegate", "none", "127.0.0.1:1", dir}, command.ExitUsage, "give --delegate=near, --delegate=all or --delegate=none"},
		"mount word":  {[]string{"mount", "--delegate", "maybe", "127.0.0.1:1", dir}, command.ExitUsage, "--delegate takes its value after '='"},
		"mount maybe": {[]string{"mount", "--delegate=maybe", "127.0.0.1:1", dir}, command.ExitInput, "--delegate \"maybe\": give near, all or none"},
		"mount port":  {[]string{"mount", "--certs", "none", "--metrics", "nonsense", "127.0.0.1:1", dir}, command.ExitInput, "give HOST:PORT"},
		"mount busy":  {[]string{"mount", "--certs", "none", "127.0.0.1:1", "/proc"}, command.ExitInput, "busy: a file system (proc) is mounted there"},
		"trace file":  {[]string{"trace", typo}, command.ExitInput, "is not a directory: give a directory on a mounted tree"},
		"required":    {[]string{"restore", "metadata"}, command.ExitUsage, "globalfs: give --from; see 'globalfs restore metadata --help'"},
		"recover dir": {[]string{"admin", "recover", "--data-dir", filepath.Join(dir, "none")}, command.ExitFailure, "no such file or directory: give the data directories of the stopped servers"},
		"swapped":     {[]string{"mount", dir, "127.0.0.1:1"}, command.ExitUsage, "give the SERVERs before the DIR: 'globalfs mount 127.0.0.1:1 " + dir},
		"cache":       {[]string{"mount", "--cache-dir", dir, "--cache-size", "1M", "127.0.0.1:1", dir}, command.ExitInput, "--cache-size 1.0 MiB: give at least 16 MiB"},
		"etcd":        {[]string{"init", "--etcd", "etcd1:2379", filepath.Join(dir, "new.yaml")}, command.ExitInput, "give http(s)://host:port"},
		"init dir":    {[]string{"init", filepath.Join(dir, "a", "b.yaml")}, command.ExitInput, "make the directory first"},
		"init check":  {[]string{"init", "--check", "--regions", "a", typo}, command.ExitUsage, "--check reads FILE as it is"},
		"watch":       {[]string{"status", "--watch", "-o", "json", "--servers", "127.0.0.1:1"}, command.ExitUsage, "give --watch or --output json"},
		"name":        {[]string{"certs", "client", "a b"}, command.ExitInput, "name \"a b\": give 1 to 63 letters"},
		"shell":       {[]string{"completion", "tcsh"}, command.ExitUsage, `unknown command "tcsh"`},
		"take over":   {[]string{"mount", "--take-over", "127.0.0.1:1", dir}, command.ExitInput, "is not mounted by GlobalFS"},
		"delegate":    {[]string{"mount", "--delegate", "--sync", "127.0.0.1:1", dir}, command.ExitUsage, "cannot be used with --sync"},
		"bench":       {[]string{"bench", "micro", "--clients", "0"}, command.ExitInput, "give at least 1"},
		"output":      {[]string{"bench", "micro", "-o", "xml"}, command.ExitInput, "give table or json"},

		"where":         {[]string{"where"}, command.ExitUsage, "give the PATH"},
		"where output":  {[]string{"where", "-o", "xml", dir}, command.ExitInput, "give text or json"},
		"where json":    {[]string{"where", "--json", dir}, command.ExitUsage, "globalfs: unknown flag: --json: give --output json; see 'globalfs where --help'"},
		"where not":     {[]string{"where", "-o", "text", dir}, command.ExitFailure, "not on a GlobalFS mount"},
		"where none":    {[]string{"where", filepath.Join(dir, "none")}, command.ExitFailure, "no such file"},
		"place nothing": {[]string{"place", dir}, command.ExitUsage, "give one of --region"},
		"place twice":   {[]string{"place", "--region", "r", "--clear", dir}, command.ExitUsage, "give one of --region"},
		"place path":    {[]string{"place", "--region", "r"}, command.ExitUsage, "takes one PATH"},
		"place no move": {[]string{"place", "--clear", "--no-move", dir}, command.ExitUsage, "go with --region"},
		"place wait":    {[]string{"place", "--region", "r", "--no-move", "--wait", dir}, command.ExitUsage, "nothing else moves"},
		"place not":     {[]string{"place", "--region", "r", dir}, command.ExitFailure, "not on a GlobalFS mount"},
		"place mkdir":   {[]string{"place", "--region", "r", "--mkdir", filepath.Join(dir, "a/b")}, command.ExitFailure, "not on a GlobalFS mount"},
		"place none":    {[]string{"place", "--region", "r", filepath.Join(dir, "none")}, command.ExitFailure, "--mkdir makes it"},
		"place file":    {[]string{"place", "--region", "r", typo}, command.ExitFailure, "not a directory"},
		"place list":    {[]string{"place", "--list", dir}, command.ExitFailure, "not on a GlobalFS mount"},
		"place pause":   {[]string{"place", "--pause", dir}, command.ExitFailure, "not on a GlobalFS mount"},
		"place waits":   {[]string{"place", "--wait", dir}, command.ExitFailure, "not on a GlobalFS mount"},
		"token":         {[]string{"token", "a", "b"}, command.ExitUsage, "takes one PATH"},
		"token not":     {[]string{"token", dir}, command.ExitFailure, "not on a GlobalFS mount"},
		"wait":          {[]string{"wait"}, command.ExitUsage, "takes a TOKEN"},
		"wait timeout":  {[]string{"wait", "--timeout", "0s", "token"}, command.ExitInput, "give a positive duration"},
		"wait swapped":  {[]string{"wait", dir, "token"}, command.ExitUsage, "give the TOKEN before the PATH: 'globalfs wait token " + dir + "'; see 'globalfs wait --help'"},
		"wait unit":     {[]string{"wait", "--timeout", "2x", "token"}, command.ExitUsage, `globalfs: --timeout "2x": invalid duration "2x": use a number of seconds`},
		"number":        {[]string{"dev", "--replicas", "three"}, command.ExitUsage, `globalfs: --replicas "three": not a number that this flag takes; see 'globalfs dev --help'`},
		"sync none":     {[]string{"sync", filepath.Join(dir, "none")}, command.ExitFailure, "globalfs: " + filepath.Join(dir, "none") + ": no such file or directory\n"},
		"bench none":    {[]string{"bench", "mount", filepath.Join(dir, "none")}, command.ExitInput, ": give "},
		"certs show":    {[]string{"certs", "show"}, command.ExitUsage, "globalfs: certs show: give at least one FILE, such as certs/*.pem; see 'globalfs certs show --help'"},
		"certs client":  {[]string{"certs", "client"}, command.ExitUsage, "globalfs: certs client: give one NAME; see 'globalfs certs client --help'"},
		"drain":         {[]string{"admin", "drain"}, command.ExitUsage, "globalfs: admin drain: give one SERVER; see 'globalfs admin drain --help'"},
		"help":          {[]string{"help", "plaice"}, command.ExitUsage, `unknown command "plaice", did you mean place?; see 'globalfs --help'`},
		"backup file":   {[]string{"backup", "create", typo}, command.ExitFailure, "globalfs: repository " + typo + ": not a directory: give a directory, or s3://BUCKET/PREFIX"},
		"backup list":   {[]string{"backup", "list", typo}, command.ExitFailure, "not a directory: give a directory, or s3://BUCKET/PREFIX"},
		"certs none":    {[]string{"status", "--certs", dir, "--servers", "127.0.0.1:1"}, command.ExitInput, "'globalfs certs admin NAME' makes one; "},
		"config dir":    {[]string{"status", "--config", dir}, command.ExitInput, "give the cluster file itself, such as " + typo},
		"loopback":      {[]string{"init", "--loopback", "65530", filepath.Join(dir, "new.yaml")}, command.ExitInput, "--loopback 65530: give a port from 1 to 65527: each of the 9 servers gets a port"},
		"address":       {[]string{"init", "--address", "us-west-2z=a:1", filepath.Join(dir, "new.yaml")}, command.ExitInput, "there is no such server, did you mean us-west-2a, us-west-2b or us-west-2c?: give us-west-2a, "},
		"address form":  {[]string{"init", "--address", "us-west-2a"}, command.ExitUsage, "--address \"us-west-2a\": not of the form NAME=VALUE; see 'globalfs init --help'"},
		"wait not":      {[]string{"wait", "token", dir}, command.ExitFailure, "not on a GlobalFS mount"},
	} {
		var out, err bytes.Buffer
		require.Equal(t, c.code, Main(c.args, &out, &err), "%s: %s", name, &err)
		require.Contains(t, err.String(), c.says, name)
		if strings.HasPrefix(err.String(), "globalfs: ") { // not JSON
			require.Equal(t, 1, strings.Count(err.String(), "\n"), "%s: %s", name, &err)
			require.Equal(t, c.code == command.ExitUsage, strings.HasSuffix(err.String(), " --help'\n"), "%s: %s", name, &err)
		}
		require.Empty(t, out.String(), name)
	}
}

func TestParseMounts(t *testing.T) {
	regions := topology.DefaultSpec().Regions
	points, err := parseMounts([]string{"/a", "eu-west-1=/b"}, regions)
	require.NoError(t, err)
	require.Equal(t, []mountPoint{{region: "us-west-2", dir: "/a"}, {region: "eu-west-1", dir: "/b"}}, points)
}

// The whole benchmark runs, through the client library.
func TestBenchMicro(t *testing.T) {
	var out, err bytes.Buffer
	code := Main([]string{"bench", "micro", "--through", "client", "--clients", "2", "--duration", "20ms", "--data-dir", t.TempDir(), "-o", "json"}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	require.Contains(t, out.String(), `"operation": "create 1 KB"`)
}
