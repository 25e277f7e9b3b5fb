package cli

import (
	"errors"
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
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("--blocks: give %s, or s3://BUCKET/PREFIX?endpoint=https://HOST", onDisks)
	}
	if u.User != nil {
		return nil, errors.New("--blocks: there are credentials in it: give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or credentials=FILE")
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("--blocks: what follows the question mark is not key=value&key=value")
	}
	o := &topology.Objects{Bucket: topology.Bucket{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}}
	for key, values := range options {
		if len(values) != 1 {
			return nil, fmt.Errorf("--blocks: %s stands %d times: once is enough", key, len(values))
		}
		if err := setBlocksOption(&o.Bucket, key, values[0]); err != nil {
			return nil, err
		}
	}
	if o.Endpoint == "" && o.Region != "" {
		o.Endpoint = "https://s3." + o.Region + ".amazonaws.com"
	}
	if o.Endpoint == "" {
		return nil, errors.New("--blocks: name the object storage: endpoint=https://HOST, or region=REGION for that of AWS")
	}
	return o, nil
}

func setBlocksOption(b *topology.Bucket, key, value string) (err error) {
	switch key {
	case "endpoint":
		b.Endpoint = value
	case "region":
		b.Region = value
	case "pathstyle":
		if b.PathStyle, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("--blocks: pathstyle=%s: give true or false", value)
		}
	case "credentials":
		if b.Credentials, err = filepath.Abs(value); err != nil {
			return fmt.Errorf("--blocks: credentials=%s: %w", value, err)
		}
	default:
		return fmt.Errorf("--blocks: there is no option %s: known are endpoint, region, pathstyle, credentials", key)
	}
	return nil
}
