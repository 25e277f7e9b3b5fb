package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The shell completes names of the cluster file, fixed values, certificates and lists.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Contains(t, run(t, "__complete", "admin", "drain", ""), ":4\n", "without a file there is nothing, and no error")
	run(t, "init", "--regions", "oregon,ireland,tokyo", "--datacenters", "1")
	run(t, "certs", "servers")
	run(t, "certs", "client", "laptop")
	run(t, "certs", "admin", "alice")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"server", ""}, "oregona\nirelanda\ntokyoa\n:4\n"},
		{[]string{"server", "oregona", ""}, ":4\n"},
		{[]string{"admin", "drain", "o"}, "oregona\nirelanda\ntokyoa\n:4\n"}, // the shell selects those that fit
		{[]string{"admin", "remove", ""}, "oregona\nirelanda\ntokyoa\n:4\n"},
		{[]string{"admin", "join", ""}, "oregon\nireland\ntokyo\n:4\n"},
		{[]string{"admin", "move-leader", ""}, "0\t/\n1\t/oregon\n2\t/ireland\n3\t/tokyo\n:4\n"},
		{[]string{"admin", "replace", "1", ""}, "oregona\nirelanda\ntokyoa\n:4\n"},
		{[]string{"admin", "replace", "--to", ""}, "oregona\nirelanda\ntokyoa\n:4\n"},
		{[]string{"place", "--region", ""}, "oregon\nireland\ntokyo\nglobal\n:4\n"},
		{[]string{"place", "--spread", "oregon,"}, "oregon,oregon\noregon,ireland\noregon,tokyo\noregon,global\n:4\n"},
		{[]string{"mount", "--region", ""}, "oregon\nireland\ntokyo\n:4\n"},
		{[]string{"status", "--name", ""}, "alice\nlaptop\n:4\n"},
		{[]string{"status", "--output", ""}, "text\njson\n:4\n"},
		{[]string{"certs", "revoke", "--role", ""}, "client\nadmin\nserver\n:4\n"},
		{[]string{"bench", "blocks", "--durability", ""}, "os\nsync\n:4\n"},
	} {
		require.Equal(t, c.want, run(t, append([]string{"__complete"}, c.args...)...), "%q", c.args)
	}
	require.Contains(t, run(t, "__complete", "config", "show", ""), "mount\n")
}
