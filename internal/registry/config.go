package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Config selects the etcd, and the cluster in it.
type Config struct {
	Endpoints []string // of etcd's members: all http://host:port, or all https://host:port
	Cluster   string   // its name: at most 128 bytes without slashes
	// TLS verifies etcd's members, and this process to them. Nil with https: the system's roots, and no
	// certificate.
	TLS *tls.Config
	// Username and Password, if etcd requires them: both or none.
	Username, Password string
	// Insecure accepts http endpoints that are not on this host.
	Insecure bool
	// Timeout is the time limit of one operation.
	Timeout time.Duration
	// Lease is the time for which a server counts as live after its last renewal: whole seconds. Etcd raises
	// values below one and a half of its election timeouts.
	Lease time.Duration
	// Logger receives the events of Watch and Announce. Nil: no log.
	Logger *slog.Logger
}

// Good values if etcd is not far away.
const (
	DefaultTimeout = 5 * time.Second
	DefaultLease   = 10 * time.Second
)

// Validate returns an error with the wrong field, its value and the remedy.
func (c *Config) Validate() error {
	if len(c.Endpoints) == 0 {
		return errors.New("registry: no endpoints: give those of etcd's members, such as https://etcd1.example.com:2379")
	}
	for _, e := range c.Endpoints {
		if err := c.validateEndpoint(e); err != nil {
			return err
		}
	}
	if err := c.checkClear(); err != nil {
		return err
	}
	switch {
	case c.Timeout <= 0:
		return fmt.Errorf("registry: timeout %v: give some seconds", c.Timeout)
	case c.Lease < time.Second || c.Lease%time.Second != 0:
		return fmt.Errorf("registry: lease %v: give whole seconds, such as 10s", c.Lease)
	case (c.Username == "") != (c.Password == ""):
		return fmt.Errorf("registry: user %q: give a name and a password, or neither", c.Username)
	}
	return validateName("cluster", c.Cluster)
}

func (c *Config) validateEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err == nil && u.User != nil:
		return fmt.Errorf("registry: the endpoint at %s has a password in it: give that as username and password", u.Host)
	case checkForm(endpoint) != nil:
		return checkForm(endpoint)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("registry: endpoint %q: give only scheme, host and port", endpoint)
	case u.Scheme == "http" && c.TLS != nil:
		return fmt.Errorf("registry: endpoint %q: certificates are given but this is not encrypted: give https://%s", endpoint, u.Host)
	case u.Scheme == "https" != c.secure():
		return fmt.Errorf("registry: endpoint %q: give all endpoints with http or all with https", endpoint)
	}
	return nil
}

// secure reports whether the first endpoint, and so each endpoint, uses TLS.
func (c *Config) secure() bool { return strings.HasPrefix(strings.ToLower(c.Endpoints[0]), "https:") }

// checkClear refuses http to another host: etcd's members, and anyone on the network path, can change the
// cluster.
func (c *Config) checkClear() error {
	if c.Insecure {
		return nil
	}
	return CheckEncrypted(c.Endpoints)
}

// checkForm refuses an endpoint without scheme, host or port.
func checkForm(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" {
		return fmt.Errorf("registry: endpoint %q: give http(s)://host:port, such as https://etcd1.example.com:2379", endpoint)
	}
	return nil
}

// CheckEncrypted refuses endpoints that are no URLs, or that use a network without encryption.
func CheckEncrypted(endpoints []string) error {
	for _, e := range endpoints {
		if err := checkForm(e); err != nil {
			return err
		}
		u, err := url.Parse(e)
		if err != nil || u.Scheme != "http" || isLoopback(u.Hostname()) {
			continue
		}
		return fmt.Errorf("registry: endpoint %q: http to another host is refused, because the network could change the cluster: "+
			"give https://%s ('globalfs certs etcd' makes certificates for etcd), or set 'insecure: true' below 'registry:' in the cluster file, or give --insecure", e, u.Host)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// validateName refuses a name that cannot be one part of a key.
func validateName(what, name string) error {
	if name == "" || len(name) > 128 || strings.ContainsRune(name, '/') || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("registry: %s %q: give a name of 1 to 128 bytes without slashes and control characters", what, name)
	}
	return nil
}
