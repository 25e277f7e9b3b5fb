package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pageScript returns the commands of a page on one host: the blocks without indented lines.
func pageScript(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	require.NoError(t, err)
	parts := strings.Split("\n"+string(text), "\n```\n")
	require.Equal(t, 1, len(parts)%2, "%s: a block without an end", page)
	var commands []string
	for i := 1; i < len(parts); i += 2 {
		if !strings.HasPrefix(parts[i], " ") {
			commands = append(commands, parts[i])
		}
	}
	require.NotEmpty(t, commands, page)
	return strings.Join(commands, "\n") + "\n"
}

// The commands of the page start a cluster in one process, use two mounts of it, and stop it.
func TestOneHostPage(t *testing.T) {
	f := newFirstSteps(t)
	for _, mount := range []string{"oregon", "ireland"} {
		t.Cleanup(func() { _ = unix.Unmount(filepath.Join(f.dir, mount), unix.MNT_DETACH|unix.MNT_FORCE) }) // the page unmounts
	}
	script := filepath.Join(f.dir, "page")
	require.NoError(t, os.WriteFile(script, []byte("set -m\n"+pageScript(t, "quickstart-one-host.md")), 0o644))
	out, code := f.sh("HOME=" + f.dir + " exec bash -e " + script)
	require.Zero(t, code, out)
	require.Contains(t, out, "eu-west-1\nus-east-1\nus-west-2\n")
	require.Contains(t, out, "eu-west-1 (partition 3)")
	require.Contains(t, out, "\nhello\n")
	require.Contains(t, out, "cluster dev: HEALTHY")
	for _, mount := range []string{"oregon", "ireland"} {
		require.Error(t, mounted(filepath.Join(f.dir, mount)))
	}
}

// systemctl stands for systemd, which runs in no test: it starts and stops the installed units with their
// command, user, group and state directory, and without capabilities.
const systemctl = `#!/bin/bash
set -euo pipefail
[ "$2" = --now ]
value() { sed -n "s/^$1=//p" /etc/systemd/system/globalfs@.service; }
for unit in "${@:3}"; do
	name="${unit#globalfs@}"
	pid="/run/$name.pid"
	case "$1" in
	enable)
		install -d -m "$(value StateDirectoryMode)" -o "$(value User)" -g "$(value Group)" "/var/lib/$(value StateDirectory)"
		command="$(value ExecStart)"
		[ "$(value CapabilityBoundingSet)" = "" ]
		# shellcheck disable=SC2086
		setpriv --reuid "$(value User)" --regid "$(value Group)" --init-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
			${command//%i/$name} >"/var/log/$name.log" 2>&1 &
		echo $! >"$pid"
		;;
	disable)
		kill "$(cat "$pid")"
		until ! [ -e "/proc/$(cat "$pid")" ]; do sleep 0.1; done
		;;
	*) exit 1 ;;
	esac
done
`

// The commands of the page configure, start, mount and stop three services, in a copy of this machine's root.
func TestSystemdPage(t *testing.T) {
	f := newFirstSteps(t)
	for _, tool := range []string{"systemd-sysusers", "setpriv", "mount.fuse3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if out, err := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces: %v: %s", err, out)
	}
	bin, _, _ := strings.Cut(f.path, ":")
	etcd, err := FindEtcd()
	require.NoError(t, err)
	inside := filepath.Join(f.dir, "inside")
	require.NoError(t, os.Mkdir(inside, 0o755))
	for name, text := range map[string]string{
		"systemctl": systemctl,
		"page":      pageScript(t, "quickstart-systemd.md"),
		"first": `set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ip link set lo up
cd /tmp && /page/etcd >/tmp/etcd.log 2>&1 &
cd /root
bash -euo pipefail /page/page || { tail -n 20 /tmp/etcd.log /var/log/*-*.log; exit 1; }
if mountpoint -q /mnt/globalfs; then exit 1; fi
id globalfs
ls -ld /var/lib/globalfs/us-west-2a
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(inside, name), []byte(text), 0o755))
	}
	for from, to := range map[string]string{filepath.Join(bin, "globalfs"): "globalfs", etcd: "etcd"} {
		out, err := exec.Command("cp", from, filepath.Join(inside, to)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	install, err := filepath.Abs("../../deploy/install.sh")
	require.NoError(t, err)
	out, code := f.sh(`exec unshare --mount --net --pid --fork --kill-child bash -euo pipefail -c '
		mount -t tmpfs tmpfs /mnt
		mkdir /mnt/upper /mnt/work /mnt/root
		mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
		mkdir -p /mnt/root/page && cp -r ` + inside + `/. /mnt/root/page/
		rm -rf /mnt/root/etc/globalfs /mnt/root/var/lib/globalfs
		` + install + ` /mnt/root/page/globalfs /mnt/root >/dev/null
		install -m 755 /mnt/root/page/systemctl /mnt/root/usr/local/sbin/systemctl
		mount -t proc proc /mnt/root/proc
		mount --bind /dev /mnt/root/dev
		exec chroot /mnt/root bash /page/first'`)
	require.Zero(t, code, out)
	require.Contains(t, out, "cluster globalfs: HEALTHY")
	require.Contains(t, out, "\nhello\n")
	require.Regexp(t, `drwx------ \d+ globalfs globalfs .*/us-west-2a`, out)
}

// The commands of the page run a cluster of containers, lose one and stop all. It needs a Docker engine and
// builds the image.
func TestDockerPage(t *testing.T) {
	script := pageScript(t, "quickstart-docker.md")
	for line := range strings.Lines(script) {
		require.True(t, strings.HasPrefix(line, "docker compose -f deploy/docker/compose.yml "), line)
	}
	if os.Getenv("DOCKER") == "" {
		t.Skip("by design: DOCKER=1 runs it on a machine with a Docker engine")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		down := exec.Command("docker", "compose", "-f", "deploy/docker/compose.yml", "down", "--volumes")
		down.Dir = cmd.Dir
		_ = down.Run() // the page has stopped them otherwise
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "cluster compose: HEALTHY")
	require.Contains(t, string(out), "\nhello\n")
}
