package objects_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/objects"
)

func TestConfig(t *testing.T) {
	good := objects.Config{Endpoint: "https://s3.example.com:9000", Bucket: "blocks", Prefix: "a/b", Timeout: time.Second}
	require.NoError(t, good.Validate())
	for name, change := range map[string]func(*objects.Config){
		"no endpoint":  func(c *objects.Config) { c.Endpoint = "" },
		"no scheme":    func(c *objects.Config) { c.Endpoint = "s3.example.com" },
		"other scheme": func(c *objects.Config) { c.Endpoint = "ftp://s3.example.com" },
		"path":         func(c *objects.Config) { c.Endpoint = "https://s3.example.com/blocks" },
		"secrets":      func(c *objects.Config) { c.Endpoint = "https://key:verysecret@s3.example.com" },
		"no bucket":    func(c *objects.Config) { c.Bucket = "" },
		"bad bucket":   func(c *objects.Config) { c.Bucket = "a/b" },
		"bad prefix":   func(c *objects.Config) { c.Prefix = "/a" },
		"no timeout":   func(c *objects.Config) { c.Timeout = 0 },
	} {
		bad := good
		change(&bad)
		err := bad.Validate()
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "verysecret")
		_, err = objects.Open(t.Context(), bad)
		require.Error(t, err, name)
	}
}
