package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// clusterName is the form of names of clusters, which are used in certificates and in keys of the registry.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

func (s *Spec) validateName() error {
	if s.Name != "" && !clusterName.MatchString(s.Name) {
		return fmt.Errorf("name: %q: use up to 63 letters, digits, dots, dashes", s.Name)
	}
	return nil
}

// locate sets the addresses of the servers of the creation of the cluster.
func (s *Spec) locate(c *Cluster) error {
	used := map[string]string{}
	for i := range c.Servers {
		server := &c.Servers[i]
		server.Address = s.Addresses[server.Name]
		if server.Address == "" && len(s.Addresses) > 0 {
			return fmt.Errorf("addresses: server %s has none: give host:port", server.Name)
		}
	}
	for _, name := range sorted(s.Addresses) {
		address := s.Addresses[name]
		if err := CheckAddress(address); err != nil {
			return fmt.Errorf("addresses: %s: %w", name, err)
		}
		if other, taken := used[address]; taken {
			return fmt.Errorf("addresses: %s: %s is also that of %s: each server needs its own", name, address, other)
		}
		used[address] = name
		if !slices.ContainsFunc(c.Servers, func(server Server) bool { return server.Name == name }) {
			return fmt.Errorf("addresses: %w", c.NoServer(name))
		}
	}
	return nil
}

// Relocate sets in s another address of a server.
func (s *Spec) Relocate(server, address string) {
	for i := range s.StorageChanges {
		if c := &s.StorageChanges[i]; c.Server == server && c.Process != 0 { // the server joined later
			c.Address = address
			return
		}
	}
	if s.Addresses == nil {
		s.Addresses = map[string]string{}
	}
	s.Addresses[server] = address
}

// CheckAddress returns the reason why an address is not host:port, or nil.
func CheckAddress(address string) error {
	at := strings.LastIndexByte(address, ':')
	if at < 1 {
		return fmt.Errorf("%q: give host:port, such as 10.1.0.1:7420", address)
	}
	if port, err := strconv.ParseUint(address[at+1:], 10, 16); err != nil || port == 0 {
		return fmt.Errorf("%q: the port is a number from 1 to 65535", address)
	}
	return nil
}

func sorted(addresses map[string]string) (keys []string) {
	for name := range addresses {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return keys
}

// NoServer returns the error for a name that is not the name of a server of c. It names the servers.
func (c *Cluster) NoServer(name string) error {
	return fmt.Errorf("there is no server %q: give one of %s", name, strings.Join(serverNames(c), ", "))
}

func serverNames(c *Cluster) (all []string) {
	for _, s := range c.Servers {
		all = append(all, s.Name)
	}
	return all
}

// Hosts returns, by process, the server of each storage server and replica.
func (c *Cluster) Hosts() map[multicast.ProcessID]*Server {
	hosts := map[multicast.ProcessID]*Server{}
	for i := range c.Servers {
		hosts[c.Servers[i].Storage] = &c.Servers[i]
	}
	for _, p := range c.Partitions {
		for _, r := range p.Replicas {
			hosts[r.Process] = c.Server(r.Server)
		}
	}
	return hosts
}
