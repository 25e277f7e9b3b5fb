package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/wan"
)

// Config configures a cluster.
type Config struct {
	Program     string // the globalfs binary
	Etcd        string // the etcd binary
	Dir         string // for data, logs and certificates: an empty directory
	Regions     []topology.Region
	Datacenters int // per region, with one server each
	Replicas    int
	Partitions  int // of each region; 0: one
	Copies      int
	Durability  string   // empty: os, because tests of many clusters share one disk
	Fabric      string   // empty: auto
	LocalOrder  string   // empty: primcast
	Memory      string   // connections for the memory of LocalOrder tram; empty: auto
	RDMA        []string // devices of the servers in turn, for the memory of LocalOrder tram; empty: none is used
	Objects     string   // key of the cluster file, in YAML; empty: blocks are on the servers' disks
	Lab         *wan.Lab // with a host for each server, of the same name, and the hosts of Mounts; nil: loopback
	Profiled    bool     // servers and mounts serve Go's profiler, see Process.Profile
}

// Cluster is a cluster of processes.
type Cluster struct {
	Etcd    *Process
	Servers map[string]*Process // by name

	cfg       Config
	addresses map[string]string
	mu        sync.Mutex
	mounts    []*Mount // GUARDED_BY mu
}

// Start makes the cluster and starts all its processes. On an error nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	c := &Cluster{cfg: cfg, Servers: map[string]*Process{}, addresses: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.startEtcd(ctx); err != nil {
		return nil, err
	}
	if err := c.init(ctx); err != nil {
		return nil, err
	}
	for _, name := range c.Names() {
		if c.Servers[name], err = c.server(name); err != nil {
			return nil, err
		}
		if err := c.Servers[name].Launch(); err != nil {
			return nil, err
		}
	}
	for _, name := range c.Names() {
		if err := c.Servers[name].AwaitReady(ctx); err != nil {
			return nil, err
		}
	}
	if len(cfg.RDMA) > 0 {
		return c, c.awaitSettled(ctx)
	}
	return c, nil
}

// awaitSettled waits until the cluster is healthy: in the virtual machine of test/rdma the first handshakes
// take longer than a mount waits.
func (c *Cluster) awaitSettled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error {
		_, err := c.Admin(ctx, "status", "--settled")
		return err
	})
}

// RDMADevices returns the devices that test/rdma names; empty: there are none.
func RDMADevices() []string { return strings.Fields(os.Getenv("GLOBALFS_TEST_RDMA")) }

// durability returns the durability in the cluster file.
func (c *Config) durability() string {
	if c.Durability == "" {
		return "os"
	}
	return c.Durability
}

// Names lists the servers, region after region.
func (c *Cluster) Names() (names []string) {
	for _, r := range c.cfg.Regions {
		names = append(names, c.cfg.Servers(r)...)
	}
	return names
}

// Servers lists the servers of a region, with the names from init.
func (c *Config) Servers(region topology.Region) (names []string) {
	for d := range c.Datacenters {
		names = append(names, fmt.Sprintf("%s%c", region, 'a'+d))
	}
	return names
}

// path returns a path in the cluster's directory.
func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.cfg.Dir}, parts...)...)
}

// file returns the path of the cluster file.
func (c *Cluster) file() string { return c.path("cluster.yaml") }

// Certs returns the directory with all certificates.
func (c *Cluster) Certs() string { return c.path("certs") }

// DataDir returns the data directory of a server.
func (c *Cluster) DataDir(server string) string { return c.path("data", server) }

// Address returns the address of a server.
func (c *Cluster) Address(server string) string { return c.addresses[server] }

// port returns an address on a host: with a fixed port on hosts with their own networks, otherwise with a
// port that is free now.
func (c *Cluster) port(host string, port int) (string, error) {
	if c.cfg.Lab != nil && host != wan.Controller {
		return fmt.Sprintf("%s:%d", c.cfg.Lab.Address(host), port), nil
	}
	on := "127.0.0.1"
	if c.cfg.Lab != nil {
		on = c.cfg.Lab.Address(host)
	}
	return FreeAddress(on)
}

// triedPorts counts the ports that FreeAddress has tried.
var triedPorts atomic.Uint32

// FreeAddress returns an address of a host of this machine that is not in use now, for a server that is
// started later. Its port is below those that Linux gives to connections: no connection takes the port while
// the server is down.
func FreeAddress(host string) (address string, err error) {
	const first, ports = 10000, 22000
	start := 100 * uint32(os.Getpid()) // other processes begin elsewhere
	for range 1000 {
		port := first + (start+triedPorts.Add(1))%ports
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(port)))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("no port of 1,000 is free: %w", err)
}

// startEtcd runs etcd on a host that the servers reach: in a laboratory on the Controller, so that cuts
// between regions do not affect it.
func (c *Cluster) startEtcd(ctx context.Context) error {
	clients, err := c.port(wan.Controller, 0)
	if err != nil {
		return err
	}
	peers, err := c.port(wan.Controller, 0)
	if err != nil {
		return err
	}
	c.addresses["etcd"] = clients
	args := []string{
		"--data-dir", c.path("etcd"), "--listen-client-urls", "http://" + clients, "--advertise-client-urls", "http://" + clients,
		"--listen-peer-urls", "http://" + peers, "--initial-advertise-peer-urls", "http://" + peers, "--initial-cluster", "default=http://" + peers,
	}
	c.Etcd = &Process{
		Name: "etcd", Log: c.path("etcd.log"),
		command: func(ctx context.Context) *exec.Cmd { return endWithUs(exec.CommandContext(ctx, c.cfg.Etcd, args...)) },
		ready: func(ctx context.Context) error {
			return poll(ctx, func(ctx context.Context) error { return get(ctx, "http://"+clients+"/health") })
		},
	}
	return c.Etcd.Start(ctx)
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		return errors.Join(err, errors.New(response.Status))
	}
	return nil
}

// init writes the cluster file and the certificates with the commands for operators.
func (c *Cluster) init(ctx context.Context) error {
	var regions []string
	for _, r := range c.cfg.Regions {
		regions = append(regions, string(r))
	}
	args := []string{
		"init", "--name", "test", "--regions", strings.Join(regions, ","), "--etcd", "http://" + c.addresses["etcd"], "--data-dir", c.path("data"),
		"--datacenters", fmt.Sprint(c.cfg.Datacenters), "--replicas", fmt.Sprint(c.cfg.Replicas), "--copies", fmt.Sprint(c.cfg.Copies),
		"--partitions", fmt.Sprint(max(1, c.cfg.Partitions)),
	}
	if c.cfg.LocalOrder != "" {
		args = append(args, "--local-order", c.cfg.LocalOrder)
	}
	for _, name := range c.Names() {
		address, err := c.port(name, 7420)
		if err != nil {
			return err
		}
		c.addresses[name] = address
		args = append(args, "--address", name+"="+address)
	}
	if c.cfg.Lab != nil {
		args = append(args, "--insecure") // etcd is on another host of the laboratory
	}
	commands := [][]string{append(args, c.file()), {"certs", "init", "--cluster", "test"}, {"certs", "admin", "op"}, {"certs", "client", "mount", "--root"}}
	for _, name := range c.Names() {
		commands = append(commands, []string{"certs", "server", name})
	}
	for _, command := range commands {
		if command[0] == "certs" {
			command = append(command, "--dir", c.Certs())
		}
		if _, err := c.Run(ctx, command...); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(c.file())
	if err != nil {
		return err
	}
	file := string(text)
	memory := c.cfg.Memory
	if len(c.cfg.RDMA) > 0 {
		memory = "verbs"
	}
	if memory != "" {
		file = strings.Replace(file, "\nmulticast: {local: tram, fabric: auto}\n", "\nmulticast: {local: tram, fabric: "+memory+"}\n", 1)
	}
	file = strings.Replace(file, "\ndurability: sync\n", "\ndurability: "+c.cfg.durability()+"\n", 1)
	if len(c.cfg.RDMA) > 0 && c.cfg.Fabric == "" {
		c.cfg.Fabric = "off" // fewer handshakes
	}
	if c.cfg.Fabric != "" {
		file = strings.Replace(file, "\nfabric: auto\n", "\nfabric: "+c.cfg.Fabric+"\n", 1)
	}
	if c.cfg.Objects != "" {
		file += "objects: " + c.cfg.Objects + "\n"
	}
	return os.WriteFile(c.file(), []byte(file), 0o644)
}

// Run runs a command of the binary on this host, and returns its standard output. The error has the exit code
// as *exec.ExitError.
func (c *Cluster) Run(ctx context.Context, args ...string) (string, error) {
	cmd := endWithUs(exec.CommandContext(ctx, c.cfg.Program, args...))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("globalfs %s: %w: %s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out), nil
}

// Admin runs a command with the cluster file, such as status or admin.
func (c *Cluster) Admin(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, append(args, "--config", c.file())...)
}

// on returns the command of the binary on a host.
func (c *Cluster) on(ctx context.Context, host string, args ...string) *exec.Cmd {
	if c.cfg.Lab != nil {
		return endWithUs(c.cfg.Lab.Command(ctx, host, c.cfg.Program, args...))
	}
	return endWithUs(exec.CommandContext(ctx, c.cfg.Program, args...))
}

// server returns the process of a server without starting it.
func (c *Cluster) server(name string) (*Process, error) {
	p := &Process{Name: name, Log: c.path(name + ".log")}
	flags, err := c.profiled(p, name)
	if err != nil {
		return nil, err
	}
	if devices := c.cfg.RDMA; len(devices) > 0 {
		flags = append(flags, "--rdma-device", devices[slices.Index(c.Names(), name)%len(devices)])
	}
	var from int64 // start of this run in the log
	p.command = func(ctx context.Context) *exec.Cmd {
		if info, err := os.Stat(p.Log); err == nil {
			from = info.Size()
		}
		return c.on(ctx, name, append([]string{"server", name, "--config", c.file()}, flags...)...)
	}
	p.ready = func(ctx context.Context) error {
		return poll(ctx, func(context.Context) error { return said(p.Log, from, "ready: ") })
	}
	return p, nil
}

// said fails unless the part of a file after byte from has a line that begins with text.
func said(path string, from int64, text string) error {
	all, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(all[min(from, int64(len(all))):])) {
		if strings.HasPrefix(line, text) {
			return nil
		}
	}
	return fmt.Errorf("no line %q", text)
}

// Close stops all processes: first the mounts, then servers and etcd. It returns the errors of processes that
// did not end properly.
func (c *Cluster) Close() error {
	c.mu.Lock()
	mounts := c.mounts
	c.mu.Unlock()
	var unmounts, stops []func() error
	for _, m := range mounts {
		unmounts = append(unmounts, m.Close)
	}
	for _, p := range c.Servers {
		stops = append(stops, p.Stop)
	}
	if c.Etcd != nil {
		stops = append(stops, c.Etcd.Stop)
	}
	return errors.Join(together(unmounts), together(stops))
}

// together makes all calls at the same time, and waits for them.
func together(calls []func() error) error {
	var running sync.WaitGroup
	errs := make([]error, len(calls))
	for i, call := range calls {
		running.Go(func() { errs[i] = call() })
	}
	running.Wait()
	return errors.Join(errs...)
}
