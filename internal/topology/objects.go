package topology

import (
	"fmt"
	"maps"
	"strings"
)

// Bucket is a bucket of S3-compatible object storage, with a prefix of keys. It contains no secrets.
type Bucket struct {
	Endpoint string `yaml:"endpoint,omitempty"` // such as https://s3.eu-west-1.amazonaws.com
	Bucket   string `yaml:"bucket,omitempty"`
	Prefix   string `yaml:"prefix,omitempty"` // prefix of all keys, without a slash at its begin and end
	// Region is the location of the bucket in the terms of the object storage. Empty: the storage is asked.
	Region string `yaml:"region,omitempty"`
	// PathStyle puts the name of the bucket into the path of a URL instead of the host name.
	PathStyle bool `yaml:"pathstyle,omitempty"`
	// Credentials is the path of a file in the format of ~/.aws/credentials. Empty: the environment,
	// ~/.aws/credentials, or the role of the machine.
	Credentials string `yaml:"credentials,omitempty"`
}

// Objects describes the object storage that holds the blocks, instead of the servers' own disks.
type Objects struct {
	Bucket `yaml:",inline"`
	// Regions has the settings of regions that differ from the common bucket. A region without its own
	// bucket uses the prefix PREFIX/REGION in the common bucket.
	Regions map[Region]Bucket `yaml:"regions,omitempty"`
}

// Of returns the bucket and the prefix of a region's blocks.
func (o *Objects) Of(r Region) Bucket {
	b, own := o.Bucket, o.Regions[r]
	if own.Bucket != "" {
		b.Bucket = own.Bucket
	} else {
		b.Prefix = strings.Trim(b.Prefix+"/"+string(r), "/")
	}
	if own.Prefix != "" {
		b.Prefix = own.Prefix
	}
	for _, field := range []struct {
		common *string
		own    string
	}{{&b.Endpoint, own.Endpoint}, {&b.Region, own.Region}, {&b.Credentials, own.Credentials}} {
		if field.own != "" {
			*field.common = field.own
		}
	}
	b.PathStyle = b.PathStyle || own.PathStyle
	return b
}

// Reached returns o with the endpoints and credentials of other. The buckets and prefixes, which locate the
// blocks, remain those of o.
func (o *Objects) Reached(other *Objects) *Objects {
	if o == nil || other == nil {
		return o
	}
	reached := *other
	reached.Bucket.Bucket, reached.Prefix = o.Bucket.Bucket, o.Prefix
	reached.Regions = maps.Clone(other.Regions)
	for r, now := range other.Regions {
		now.Bucket, now.Prefix = o.Regions[r].Bucket, o.Regions[r].Prefix
		reached.Regions[r] = now
	}
	for r, was := range o.Regions {
		if _, named := other.Regions[r]; !named && (was.Bucket != "" || was.Prefix != "") {
			if reached.Regions == nil {
				reached.Regions = map[Region]Bucket{}
			}
			reached.Regions[r] = Bucket{Bucket: was.Bucket, Prefix: was.Prefix}
		}
	}
	return &reached
}

// validate returns an error that names the wrong field. Clients of the object storage check the rest when
// they connect.
func (o *Objects) validate(regions []Region) error {
	if o == nil {
		return nil
	}
	known := map[Region]bool{}
	users := map[[3]string]Region{}
	for _, r := range regions {
		known[r] = true
		b := o.Of(r)
		switch {
		case b.Bucket == "":
			return fmt.Errorf("objects: no bucket for region %s: give one, or one for all", r)
		case !strings.HasPrefix(b.Endpoint, "http://") && !strings.HasPrefix(b.Endpoint, "https://"):
			return fmt.Errorf("objects: the endpoint of region %s: give a URL such as https://s3.eu-west-1.amazonaws.com", r)
		case strings.Contains(b.Endpoint, "@"):
			return fmt.Errorf("objects: the endpoint of region %s has credentials in it: give them by the environment or a file", r)
		}
		place := [3]string{b.Endpoint, b.Bucket, b.Prefix}
		if other, ok := users[place]; ok {
			return fmt.Errorf("objects: regions %s and %s have the same bucket %s and prefix %q: give them different ones", other, r, b.Bucket, b.Prefix)
		}
		users[place] = r
	}
	for r := range o.Regions {
		if !known[r] {
			return fmt.Errorf("objects: there is no region %q: remove it", r)
		}
	}
	return nil
}
