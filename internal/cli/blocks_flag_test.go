package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

func TestParseBlocks(t *testing.T) {
	o, err := parseBlocks("disks")
	require.NoError(t, err)
	require.Nil(t, o)
	o, err = parseBlocks("s3://bucket/a/b/?endpoint=http://localhost:9000&pathstyle=true&credentials=/etc/keys")
	require.NoError(t, err)
	require.Equal(t, topology.Bucket{Endpoint: "http://localhost:9000", Bucket: "bucket", Prefix: "a/b", PathStyle: true, Credentials: "/etc/keys"}, o.Bucket)
	o, err = parseBlocks("s3://bucket?region=eu-west-1")
	require.NoError(t, err)
	require.Equal(t, topology.Bucket{Endpoint: "https://s3.eu-west-1.amazonaws.com", Bucket: "bucket", Region: "eu-west-1"}, o.Bucket)
	for value, want := range map[string]string{
		"":                                    "give disks, or s3://",
		"bucket":                              "give disks, or s3://",
		"gs://bucket":                         "give disks, or s3://",
		"s3://bucket":                         "name the object storage",
		"s3://key:verysecret@bucket?region=x": "credentials in it",
		"s3://bucket?region=x&region=y":       "region stands 2 times",
		"s3://bucket?region=x&pathstyle=some": "give true or false",
		"s3://bucket?region=x&acl=public":     "there is no option acl",
	} {
		_, err := parseBlocks(value)
		require.ErrorContains(t, err, want, value)
		require.NotContains(t, err.Error(), "verysecret")
	}
}
