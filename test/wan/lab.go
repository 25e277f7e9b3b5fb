package wan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/topology"
)

// ErrUnavailable is in the error of New if this machine or user cannot have a lab.
var ErrUnavailable = errors.New("no WAN laboratory here")

// Controller is the name of the host in the namespace of the process that made the lab. It has no region and
// no delay to other hosts.
const Controller = "controller"

// Host is one machine of the lab.
type Host struct {
	Name   string // of any form, but different from other hosts and regions
	Region topology.Region
}

// Config configures a lab.
type Config struct {
	Hosts []Host // up to 250 regions with 250 hosts each
	// Delay is the one-way delay from the hosts of a region to those of another or the same region; nil:
	// topology.Delay.
	Delay func(from, to topology.Region) time.Duration
	// Subnet is an IPv4 network of 16 bits; zero: the first one that this machine does not use, from
	// 10.98.0.0/16 on.
	Subnet netip.Prefix
	Seed   uint64 // of losses and jitter
}

// Lab is a running network of hosts. All methods but Close may be called concurrently.
type Lab struct {
	hosts   []*host // the first is the Controller
	router  *router
	nsenter string // the program
}

// host is one network namespace and its TUN.
type host struct {
	Host
	address   netip.Addr
	namespace int // descriptor
	tun       int // descriptor
}

// New makes the hosts and starts the router. Every pair of hosts is connected, with the configured delays.
// The error is ErrUnavailable if root, the TUN device or nsenter are missing.
func New(config Config) (*Lab, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, fmt.Errorf("%w: %w (Debian: package util-linux)", ErrUnavailable, err)
	}
	l := &Lab{nsenter: nsenter}
	if err := l.makeHosts(&config); err != nil {
		l.closeHosts()
		return nil, err
	}
	if config.Delay == nil {
		config.Delay = topology.Delay
	}
	l.router = newRouter(l.hosts, rand.New(rand.NewPCG(config.Seed, 1)))
	err = l.router.setDelays(config.Delay)
	if err == nil {
		err = l.router.start()
	}
	if err != nil {
		l.closeHosts()
		return nil, err
	}
	return l, nil
}

// makeHosts makes the namespaces and TUNs of all hosts. After an error, l.hosts has the hosts made so far.
func (l *Lab) makeHosts(config *Config) error {
	if err := config.validate(); err != nil {
		return err
	}
	subnet, tun, err := claimSubnet(config.Subnet)
	if err != nil {
		return err
	}
	base := subnet.Addr().As4()
	controller := &host{Host: Host{Name: Controller}, tun: tun, namespace: -1, address: netip.AddrFrom4([4]byte{base[0], base[1], 0, 1})}
	l.hosts = append(l.hosts, controller)
	if controller.namespace, err = currentNamespace(); err != nil {
		return err
	}
	if err := configure(tunName(subnet), controller.address); err != nil {
		return err
	}
	var regions []topology.Region
	last := map[topology.Region]byte{}
	for _, h := range config.Hosts {
		if !slices.Contains(regions, h.Region) {
			regions = append(regions, h.Region)
		}
		last[h.Region]++
		region := byte(slices.Index(regions, h.Region) + 1)
		made := &host{Host: h, namespace: -1, tun: -1, address: netip.AddrFrom4([4]byte{base[0], base[1], region, last[h.Region]})}
		l.hosts = append(l.hosts, made)
		if err := made.make(); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// make makes a namespace with a TUN.
func (h *host) make() (err error) {
	if h.namespace, err = newNamespace(); err != nil {
		return err
	}
	return inside(h.namespace, func() error {
		if err := useCubic(); err != nil {
			return err
		}
		if err := raise("lo"); err != nil {
			return err
		}
		const name = "wan0"
		if h.tun, err = openTUN(name); err != nil {
			return err
		}
		return configure(name, h.address)
	})
}

func (c *Config) validate() error {
	perRegion := map[topology.Region]int{}
	for _, h := range c.Hosts {
		perRegion[h.Region]++
	}
	taken := map[string]bool{Controller: true, "": true}
	for region, n := range perRegion {
		if n > 250 || len(perRegion) > 250 {
			return fmt.Errorf("%d hosts in region %q, %d regions: at most 250 of each", n, region, len(perRegion))
		}
		if taken[string(region)] {
			return fmt.Errorf("a region cannot be named %q", region)
		}
	}
	for region := range perRegion {
		taken[string(region)] = true
	}
	for _, h := range c.Hosts {
		if taken[h.Name] {
			return fmt.Errorf("host name %q: empty, reserved, a region's, or another host's", h.Name)
		}
		taken[h.Name] = true
	}
	return nil
}

// Close stops the router and removes all resources of New. Processes on hosts should have ended; others lose
// their network. It returns the error that stopped the router before. Other methods must not run during Close
// or be called afterwards.
func (l *Lab) Close() error {
	err := l.router.stop()
	l.closeHosts()
	return err
}

func (l *Lab) closeHosts() {
	for _, h := range l.hosts {
		for _, descriptor := range []int{h.tun, h.namespace} {
			if descriptor >= 0 {
				_ = unix.Close(descriptor)
			}
		}
	}
}

// Address returns the IPv4 address of a host, or "" if there is no such host.
func (l *Lab) Address(host string) string {
	h, err := l.host(host)
	if err != nil {
		return ""
	}
	return h.address.String()
}

// Namespace returns the path of a host's network namespace, or "" if there is no such host. The path is valid
// while this process lives.
func (l *Lab) Namespace(host string) string {
	h, err := l.host(host)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.namespace)
}

func (l *Lab) host(name string) (*host, error) {
	for _, h := range l.hosts {
		if h.Name == name {
			return h, nil
		}
	}
	return nil, fmt.Errorf("the lab has no host %q", name)
}
