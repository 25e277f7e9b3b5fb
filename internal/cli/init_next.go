package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// next prints the commands that lead from the file to a mount. On one machine they can be run unchanged.
func (f *initFlags) next(cmd *cobra.Command, path string) {
	out := cmd.OutOrStdout()
	config := unlessDefault(" --config ", path, defaultConfigs)
	fmt.Fprintf(out, "wrote %s: %d servers in %d regions. Next, with etcd at %s:\n", path, len(f.servers), len(f.file.Regions), strings.Join(f.file.Registry.Endpoints, ","))
	certs := ""
	if dir := f.file.Certificates; dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(path), dir)
		}
		f.nextCerts(out, config, dir)
		certs = unlessDefault(" --certs ", dir, defaultCerts)
	}
	f.nextServers(out, config)
	step(out, "wait until the cluster is healthy", "status --wait 1m"+config)
	step(out, "a mount, on any machine with a client's certificate", "mount --mkdir "+f.someAddresses()+" /mnt/globalfs"+certs)
}

// nextCerts prints the commands that make certificates.
func (f *initFlags) nextCerts(out io.Writer, config, dir string) {
	in := unlessDefault(" --dir ", dir, "./certs")
	if f.file.Registry.CA == "" {
		step(out, "the CA, and a certificate for each server", "certs servers"+config)
	} else {
		step(out, "the CA, and a certificate for each server and for each member of etcd, with which it must be started", "certs servers --etcd"+config)
	}
	step(out, "a certificate for each administrator, and for each machine that mounts (--root: also for its root user)",
		"certs admin admin"+in, "certs client client1 --root"+in)
}

// nextServers prints the commands that start the servers.
func (f *initFlags) nextServers(out io.Writer, config string) {
	where, background := "each on its host, with the cluster file", ""
	if f.file.Certificates != "" {
		where += ", ca.pem and its own two files of the certificates"
	}
	if f.loopback != 0 {
		where, background = "all on this machine, in the background", " &"
	}
	var commands []string
	for _, s := range f.servers {
		commands = append(commands, "server "+s+config+background)
	}
	step(out, "the servers: "+where, commands...)
}

// step prints commands below a comment.
func step(out io.Writer, comment string, commands ...string) {
	fmt.Fprintf(out, "\n  # %s\n", comment)
	for _, c := range commands {
		fmt.Fprintf(out, "  globalfs %s\n", c)
	}
}

// someAddresses returns the address of the first server of each region.
func (f *initFlags) someAddresses() string {
	var some []string
	for i := 0; i < len(f.servers); i += f.file.Datacenters {
		some = append(some, f.file.Addresses[f.servers[i]])
	}
	return strings.Join(some, ",")
}

// unlessDefault returns a flag with a path. Empty: the path is one of the defaults.
func unlessDefault(flag, path, defaults string) string {
	written := filepath.Clean(path)
	if !filepath.IsAbs(path) {
		written = "./" + written
	}
	if slices.Contains(strings.Split(defaults, ", "), written) {
		return ""
	}
	return flag + quoted(path)
}

// quoted returns a path as a word of the shell.
func quoted(path string) string {
	if strings.ContainsAny(path, " '\"\\$`&;|<>()*?[]#~!{}\t\n") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
