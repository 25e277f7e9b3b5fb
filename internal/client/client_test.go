package client_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/bubble"
)

const (
	west = topology.Region("us-west-2")
	east = topology.Region("us-east-1")
)

var (
	spec = topology.Spec{Regions: []topology.Region{west, east, "eu-west-1"}, Datacenters: 1, Replicas: 3, Copies: 1}
	root = clienttest.Root
)

const lease = time.Minute

func at(dir posix.Ino, name string) client.Name { return client.Name{Dir: dir, Name: name} }

// inBubble runs a test in a bubble, in which waiting takes no time, with the cluster of spec.
func inBubble(t *testing.T, test func(t *testing.T, n *clienttest.Network)) {
	bubble.Test(t, func(t *testing.T) { test(t, clienttest.New(t, spec, lease)) })
}

func create(t *testing.T, c *client.Client, dir posix.Ino, name string) posix.Attr {
	t.Helper()
	a, err := c.Create(t.Context(), root, at(dir, name), 0o644, meta.Exclusive)
	require.NoError(t, err)
	return a
}

func write(t *testing.T, c *client.Client, ino posix.Ino, offset uint64, data []byte) client.Written {
	t.Helper()
	w, err := c.Write(t.Context(), root, client.Write{Ino: ino, Offset: offset, Data: data})
	require.NoError(t, err)
	require.Equal(t, len(data), w.Bytes)
	return w
}

func read(t *testing.T, c *client.Client, ino posix.Ino, offset uint64, length int) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xaa}, length)
	n, err := c.Read(t.Context(), ino, b, offset)
	require.NoError(t, err)
	return b[:n]
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	good := clienttest.New(t, spec, lease).Config(west)
	for want, spoil := range map[string]func(*client.Config){
		"Cluster": func(c *client.Config) { c.Cluster = nil },
		"Caller":  func(c *client.Config) { c.Caller = nil },
		"Blocks":  func(c *client.Config) { c.Blocks = nil },
		"timeout": func(c *client.Config) { c.Timeout = -1 },
		"cluster": func(c *client.Config) { c.Cluster = &topology.Cluster{} },
	} {
		cfg := good
		spoil(&cfg)
		_, err := client.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
