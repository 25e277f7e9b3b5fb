package cli

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/topology"
)

// onDisks is the value of --blocks for a cluster with the blocks on the disks of its servers.
const onDisks = "disks"

// parseBlocks parses --blocks: nil for onDisks, otherwise a place in object storage. Errors do not repeat
// parts of the value that may contain secrets.
func parseBlocks(value string) (*topology.Objects, error) {
	if value == onDisks {
		return nil, nil
	}
	if !strings.HasPrefix(value, "s3://") {
		return nil, fmt.Errorf("--blocks: give %s, or %s", onDisks, bucketForm)
	}
	b, err := parseBucket("--blocks", value)
	if err != nil {
		return nil, err
	}
	return &topology.Objects{Bucket: *b}, nil
}

// bucketForm is the form of a place in object storage.
const bucketForm = "s3://BUCKET/PREFIX?endpoint=https://HOST"

// parseBucket returns the place in object storage that an argument names.
func parseBucket(argument, value string) (*topology.Bucket, error) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("%s: give %s", argument, bucketForm)
	}
	if u.User != nil {
		return nil, fmt.Errorf("%s: there are credentials in it: give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or credentials=FILE", argument)
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%s: the part behind the question mark is not key=value&key=value", argument)
	}
	b := &topology.Bucket{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	for key, values := range options {
		if len(values) != 1 {
			return nil, fmt.Errorf("%s: %s stands %d times: once is enough", argument, key, len(values))
		}
		if err := setBucketOption(b, key, values[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", argument, err)
		}
	}
	if b.Endpoint == "" && b.Region != "" {
		b.Endpoint = "https://s3." + b.Region + ".amazonaws.com"
	}
	if b.Endpoint == "" {
		return nil, fmt.Errorf("%s: name the object storage: endpoint=https://HOST, or region=REGION for that of AWS", argument)
	}
	return b, nil
}

func setBucketOption(b *topology.Bucket, key, value string) (err error) {
	switch key {
	case "endpoint":
		b.Endpoint = value
	case "region":
		b.Region = value
	case "pathstyle":
		if b.PathStyle, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("pathstyle=%s: give true or false", value)
		}
	case "credentials":
		if b.Credentials, err = filepath.Abs(value); err != nil {
			return fmt.Errorf("credentials=%s: %w", value, err)
		}
	default:
		return fmt.Errorf("there is no option %s: known are endpoint, region, pathstyle, credentials", key)
	}
	return nil
}
