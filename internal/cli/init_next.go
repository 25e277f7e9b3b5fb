package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/command"
)

// writtenFile is the result of 'init'.
type writtenFile struct {
	File    string     `json:"file"`
	Servers []string   `json:"servers"`
	Next    []nextStep `json:"next"` // lead from the file to a mount
}

// nextStep has commands that serve one purpose.
type nextStep struct {
	Purpose  string   `json:"purpose"`
	Commands []string `json:"commands"`
}

// next prints the commands by which an operator gets from the cluster file to a mount. For a cluster on one
// machine they can be run unchanged.
func (f *initFlags) next(out io.Writer, path string) error {
	config := unlessDefault(" --config ", path, defaultConfigs)
	var steps []nextStep
	certs := ""
	if dir := f.file.Certificates; dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(path), dir)
		}
		steps = f.nextCerts(config, dir)
		certs = unlessDefault(" --certs ", dir, defaultCerts)
	}
	steps = append(steps, f.nextServers(config),
		step("wait until the cluster is healthy", "status --wait 1m"+config),
		step("a mount, on any machine with a client's certificate", "mount --mkdir "+f.someAddresses()+" /mnt/globalfs"+certs))
	if f.output == "json" {
		return command.PrintJSON(out, writtenFile{File: path, Servers: f.servers, Next: steps})
	}
	fmt.Fprintf(out, "wrote %s: %s in %s. Next, with etcd at %s:\n", path, count(len(f.servers), "server"), count(len(f.file.Regions), "region"), strings.Join(f.file.Registry.Endpoints, ","))
	for _, s := range steps {
		fmt.Fprintf(out, "\n  # %s\n", s.Purpose)
		for _, c := range s.Commands {
			fmt.Fprintf(out, "  %s\n", c)
		}
	}
	return nil
}

// nextCerts returns the commands that make certificates.
func (f *initFlags) nextCerts(config, dir string) []nextStep {
	in := unlessDefault(" --dir ", dir, "./certs")
	servers := step("the CA, and a certificate for each server", "certs servers"+config)
	if f.file.Registry.CA != "" {
		servers = step("the CA, and a certificate for each server and for each member of etcd, with which it must be started", "certs servers --etcd"+config)
	}
	return []nextStep{servers, step("a certificate for each administrator, and for each machine that mounts (--root: also for its root user)",
		"certs admin admin"+in, "certs client client1 --root"+in)}
}

// nextServers returns the commands that start the servers.
func (f *initFlags) nextServers(config string) nextStep {
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
	return step("the servers: "+where, commands...)
}

// step returns a step of commands of this program.
func step(purpose string, commands ...string) nextStep {
	s := nextStep{Purpose: purpose}
	for _, c := range commands {
		s.Commands = append(s.Commands, "globalfs "+c)
	}
	return s
}

// someAddresses returns the address of the first server of each region, or of all servers of the only region.
func (f *initFlags) someAddresses() string {
	step := f.file.Datacenters
	if len(f.file.Regions) == 1 {
		step = 1
	}
	var some []string
	for i := 0; i < len(f.servers); i += step {
		some = append(some, f.file.Addresses[f.servers[i]])
	}
	return strings.Join(some, ",")
}

// count returns "1 server" or "3 servers".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
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
