package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/program"
	"github.com/globalfs/globalfs/test/wan"
)

// maxPageCommands is the maximum number of commands from three hosts to a file that another host sees.
const maxPageCommands = 12

// pageCommand is a command of a page: one line, or several that end with a backslash.
type pageCommand struct {
	host, text string
}

// pageCommands returns the commands before and after the heading "## Stop" of a page. Each block of the page
// begins with a comment that names the host.
func pageCommands(t *testing.T, page string) (start, stop []pageCommand) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, after, found := strings.Cut(string(text), "\n## Stop\n")
	require.True(t, found)
	return blockCommands(t, before), blockCommands(t, after)
}

func blockCommands(t *testing.T, text string) (commands []pageCommand) {
	t.Helper()
	parts := strings.Split("\n"+text, "\n```\n")
	require.Equal(t, 1, len(parts)%2, "a block without an end")
	for i := 1; i < len(parts); i += 2 {
		first, lines, _ := strings.Cut(parts[i], "\n")
		host, named := strings.CutPrefix(first, "# on ")
		if strings.HasPrefix(first, " ") {
			continue // a figure
		}
		require.True(t, named, "%s: the first line of a block is a comment with the host", first)
		whole := strings.ReplaceAll(lines, "\\\n", "\\\x00")
		for line := range strings.SplitSeq(whole, "\n") {
			commands = append(commands, pageCommand{host: host, text: strings.ReplaceAll(line, "\x00", "\n")})
		}
	}
	return commands
}

// copier stands for scp: the homes of the hosts are beside each other.
const copier = `#!/bin/sh -eu
for to; do :; done
for from; do
	case $from in
	-r | *:) ;;
	*) cp -r "$from" "$HOME/../${to%:}/" ;;
	esac
done
`

// terminal is a shell of a host. The host has its own network, processes, mounts, home, /etc/hosts, /mnt,
// /var/lib and /var/log. All of it ends with the process of the shell.
type terminal struct {
	t       *testing.T
	host    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	codes   *os.File // exit codes, one in a line
	out     string   // file with the output of all commands
	private string   // the host's file system, as seen from here
}

// newTerminal starts a shell in a directory of the host.
func newTerminal(t *testing.T, lab *wan.Lab, host, homes, bin, names string) *terminal {
	t.Helper()
	home, dir := filepath.Join(homes, host), t.TempDir()
	require.NoError(t, os.Mkdir(home, 0o755))
	codes, report, err := os.Pipe()
	require.NoError(t, err)
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	c := &terminal{t: t, host: host, codes: codes, out: out.Name()}
	c.cmd = lab.Command(t.Context(), host, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "--noprofile", "--norc")
	c.cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr, c.cmd.ExtraFiles = home, out, out, []*os.File{report}
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	require.NoError(t, errors.Join(report.Close(), out.Close()))
	c.run("mount --bind " + names + " /etc/hosts")
	for _, own := range []string{"/mnt", "/var/lib", "/var/log"} {
		there := filepath.Join(dir, own)
		require.NoError(t, os.MkdirAll(there, 0o755))
		c.run("mount --bind " + there + " " + own)
	}
	pid := c.cmd.Process.Pid
	shell, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(t, err)
	c.private = filepath.Join("/proc", strings.TrimSpace(string(shell)), "root")
	return c
}

// run runs a command and returns its output. Commands in the background may add to it.
func (c *terminal) run(command string) string {
	c.t.Helper()
	from := len(c.said())
	_, err := fmt.Fprintf(c.in, "%s\necho $? >&3\n", command)
	require.NoError(c.t, err)
	require.NoError(c.t, c.codes.SetReadDeadline(time.Now().Add(patience)))
	code := make([]byte, 4)
	n, err := c.codes.Read(code)
	require.NoError(c.t, err, "%s: %s: %s", c.host, command, c.said())
	require.Equal(c.t, "0\n", string(code[:n]), "%s: %s: %s", c.host, command, c.said())
	return c.said()[from:]
}

func (c *terminal) said() string {
	text, err := os.ReadFile(c.out)
	require.NoError(c.t, err)
	return string(text)
}

// mounted reports whether the tree is mounted on the host.
func (c *terminal) mounted() bool {
	return mounted(filepath.Join(c.private, "mnt/globalfs")) == nil
}

// processes returns the ids of the processes of the host, in its own numbers: the shell is 1.
func (c *terminal) processes() (ids []int) {
	entries, err := os.ReadDir(filepath.Join(c.private, "proc"))
	require.NoError(c.t, err)
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// close ends the shell, on which no other process may depend.
func (c *terminal) close() {
	require.NoError(c.t, c.in.Close())
	require.NoError(c.t, c.cmd.Wait(), c.said())
}

// kill ends all processes of the host, and so its mounts, if the test has failed.
func (c *terminal) kill() {
	if c.t.Failed() {
		c.t.Logf("%s said:\n%s", c.host, Tail(c.out, 2000))
		for _, log := range []string{"server.log", "etcd.log"} {
			c.t.Logf("%s: %s:\n%s", c.host, log, Tail(filepath.Join(c.cmd.Dir, log), 2000))
		}
	}
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // the shell, and with it all other processes of the host
		require.Eventually(c.t, func() bool {
			_, err := os.Stat(c.private)
			return err != nil
		}, patience, 50*time.Millisecond)
	}
	_ = c.codes.Close()
}

// threeHosts starts a terminal on each of three hosts in three regions, which know each other's names, with
// the programs in PATH.
func threeHosts(t *testing.T) map[string]*terminal {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("needs /dev/fuse and root")
	}
	etcd, err := FindEtcd()
	if err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	lab, err := wan.New(wan.Config{Hosts: []wan.Host{{Name: "host1", Region: "us-west-2"}, {Name: "host2", Region: "us-east-1"}, {Name: "host3", Region: "eu-west-1"}}})
	if errors.Is(err, wan.ErrUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lab.Close()) })
	bin, homes := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(program.Path(t), filepath.Join(bin, program.Name)))
	require.NoError(t, os.Symlink(etcd, filepath.Join(bin, "etcd")))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "scp"), []byte(copier), 0o755))
	hosts := []string{"host1", "host2", "host3"}
	table := "127.0.0.1 localhost\n"
	for _, host := range hosts {
		table += lab.Address(host) + " " + host + "\n"
	}
	names := filepath.Join(bin, "hosts")
	require.NoError(t, os.WriteFile(names, []byte(table), 0o644))
	terminals := map[string]*terminal{}
	for _, host := range hosts {
		terminals[host] = newTerminal(t, lab, host, homes, bin, names)
	}
	return terminals
}

// The commands of the quickstart lead from three hosts to a healthy cluster, two mounts, and a file that
// another host reads. Then its last commands end everything.
func TestThreeHostsPage(t *testing.T) {
	start, stop := pageCommands(t, "../../docs/quickstart-three-hosts.md")
	require.NotEmpty(t, start)
	require.NotEmpty(t, stop)
	require.LessOrEqual(t, len(start), maxPageCommands)
	hosts := threeHosts(t)
	play := func(commands []pageCommand) (said []string) {
		for _, c := range commands {
			require.Contains(t, hosts, c.host, c.text)
			began := time.Now()
			said = append(said, hosts[c.host].run(c.text))
			t.Logf("%s, %v: %s", c.host, time.Since(began).Round(time.Millisecond), c.text)
		}
		return said
	}
	said := play(start)
	status := slices.IndexFunc(start, func(c pageCommand) bool { return strings.HasPrefix(c.text, "globalfs status") })
	require.GreaterOrEqual(t, status, 0)
	require.Contains(t, said[status], "cluster globalfs: HEALTHY")
	last := len(start) - 1
	require.Equal(t, "hello from host1\n", said[last])
	require.NotEqual(t, start[last-1].host, start[last].host, "another host reads")
	var mounts []string
	for name, h := range hosts {
		if h.mounted() {
			mounts = append(mounts, name)
		}
	}
	require.ElementsMatch(t, []string{start[last-1].host, start[last].host}, mounts)

	play(stop)
	for name, h := range hosts {
		require.False(t, h.mounted(), name)
		require.Eventually(t, func() bool { return slices.Equal(h.processes(), []int{1}) }, patience, 20*time.Millisecond, "%s: processes stay: %s", name, h.said())
		h.close()
	}
}
