package registry

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		change func(*Config)
		words  []string
	}{
		"no endpoints":     {func(c *Config) { c.Endpoints = nil }, []string{"no endpoints", "https://"}},
		"no scheme":        {func(c *Config) { c.Endpoints[0] = "etcd1:2379" }, []string{`"etcd1:2379"`, "http(s)://host:port"}},
		"no port":          {func(c *Config) { c.Endpoints[0] = "http://etcd1" }, []string{`"http://etcd1"`, "http(s)://host:port"}},
		"no host":          {func(c *Config) { c.Endpoints[0] = "http://:2379" }, []string{`"http://:2379"`, "http(s)://host:port"}},
		"not a URL":        {func(c *Config) { c.Endpoints[0] = "http://a b:1%" }, []string{"http(s)://host:port"}},
		"path":             {func(c *Config) { c.Endpoints[0] += "/v3" }, []string{"only scheme, host and port"}},
		"password in URL":  {func(c *Config) { c.Endpoints[0] = "http://u:secret@e:1" }, []string{"e:1", "username and password"}},
		"two schemes":      {func(c *Config) { c.Endpoints = append(c.Endpoints, "https://e:1") }, []string{`"https://e:1"`, "all"}},
		"TLS without":      {func(c *Config) { c.TLS = &tls.Config{} }, []string{"https://"}},
		"clear":            {func(c *Config) { c.Endpoints[0] = "http://etcd1:2379" }, []string{`"http://etcd1:2379"`, "https://etcd1:2379", "insecure: true", "--insecure"}},
		"one is clear":     {func(c *Config) { c.Endpoints = append(c.Endpoints, "http://10.0.0.1:2379") }, []string{`"http://10.0.0.1:2379"`}},
		"no cluster":       {func(c *Config) { c.Cluster = "" }, []string{`cluster ""`}},
		"slash in cluster": {func(c *Config) { c.Cluster = "a/b" }, []string{`cluster "a/b"`, "without slashes"}},
		"long cluster":     {func(c *Config) { c.Cluster = strings.Repeat("x", 129) }, []string{"1 to 128"}},
		"no timeout":       {func(c *Config) { c.Timeout = 0 }, []string{"timeout 0s"}},
		"no lease":         {func(c *Config) { c.Lease = 0 }, []string{"lease 0s"}},
		"broken lease":     {func(c *Config) { c.Lease = 1500 * time.Millisecond }, []string{"lease 1.5s", "whole seconds"}},
		"no password":      {func(c *Config) { c.Username = "root" }, []string{`user "root"`, "password"}},
		"no user":          {func(c *Config) { c.Password = "secret" }, []string{`user ""`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := testConfig("http://127.0.0.1:2379")
			require.NoError(t, config.Validate())
			c.change(&config)
			_, err := OpenEtcd(config)
			require.Error(t, err)
			for _, words := range c.words {
				require.ErrorContains(t, err, words)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestConfigTakesGoodEndpoints(t *testing.T) {
	for _, endpoints := range [][]string{
		{"http://localhost:2379", "http://127.0.0.2:2379/", "http://[::1]:2379"}, {"https://[::1]:2379"}, {"HTTPS://etcd.example.com:443"},
	} {
		config := testConfig(endpoints...)
		require.NoError(t, config.Validate(), "%v", endpoints)
	}
	config := testConfig("http://10.0.0.1:2379")
	config.Insecure = true
	require.NoError(t, config.Validate())
}
