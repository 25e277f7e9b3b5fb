package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObjects(t *testing.T) {
	text := `regions: [a, b, c]
objects:
  endpoint: https://s3.example.com
  bucket: blocks
  prefix: fs
  credentials: /etc/globalfs/s3
  regions:
    b: {endpoint: "https://s3.b.example.com", bucket: blocks-b, region: b-1, pathstyle: true}
    c: {prefix: elsewhere}
`
	spec, err := ParseSpec([]byte(text))
	require.NoError(t, err)
	plan, err := spec.Plan()
	require.NoError(t, err)
	require.Equal(t, Bucket{Endpoint: "https://s3.example.com", Bucket: "blocks", Prefix: "fs/a", Credentials: "/etc/globalfs/s3"}, plan.Objects.Of("a"))
	require.Equal(t, Bucket{Endpoint: "https://s3.b.example.com", Bucket: "blocks-b", Prefix: "fs", Region: "b-1", PathStyle: true, Credentials: "/etc/globalfs/s3"}, plan.Objects.Of("b"))
	require.Equal(t, "elsewhere", plan.Objects.Of("c").Prefix)
	again, err := ParseSpec(spec.YAML())
	require.NoError(t, err)
	require.Equal(t, spec, again)

	moved := again
	objects := *again.Objects
	objects.Endpoint, objects.Credentials = "https://s3.new.example.com", ""
	moved.Objects = &objects
	require.Equal(t, moved.Objects, spec.Objects.Reached(moved.Objects), "reached in another way")
	objects.Prefix = "other"
	require.NotEqual(t, moved.Objects, spec.Objects.Reached(moved.Objects), "other blocks")
	objects.Prefix, objects.Regions = "fs", nil
	require.NotEqual(t, moved.Objects, spec.Objects.Reached(moved.Objects), "other buckets in two regions")
	require.NotEqual(t, spec.Objects, moved.Objects.Reached(spec.Objects), "and the other way round")
	require.Nil(t, (*Objects)(nil).Reached(moved.Objects))
	require.Equal(t, spec.Objects, spec.Objects.Reached(nil))
}

func TestObjectsRefused(t *testing.T) {
	const endpoint = "{endpoint: \"https://x\", bucket: blocks"
	for text, want := range map[string]string{
		"{bucket: blocks}":                                        "the endpoint of region a: give a URL",
		"{endpoint: \"https://x\"}":                               "no bucket for region a",
		"{endpoint: \"https://key:secret@x\", bucket: blocks}":    "has credentials in it",
		endpoint + ", regions: {z: {prefix: p}}}":                 `there is no region "z"`,
		endpoint + ", regions: {a: {prefix: p}, b: {prefix: p}}}": "regions a and b have the same bucket",
		endpoint + ", buckets: x}":                                "unknown key \"buckets\"",
	} {
		_, err := ParseSpec([]byte("regions: [a, b]\nobjects: " + text + "\n"))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret")
	}
}
