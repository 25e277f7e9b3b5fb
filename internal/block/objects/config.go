package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Config is the place of the blocks. It has no secrets: they come from the environment (AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), the shared credentials file (~/.aws/credentials,
// AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE), or the role of the machine or container. The first source with
// secrets counts.
type Config struct {
	Endpoint string // such as https://s3.eu-west-1.amazonaws.com
	Bucket   string // must exist
	Prefix   string // of all keys, without a slash at its ends; may be empty
	Region   string // of the bucket; empty: the server is asked
	// PathStyle puts the bucket into the path instead of into the host's name. If it is false, Endpoint
	// decides.
	PathStyle bool
	// Credentials is a shared credentials file to use instead of all above, with its profile AWS_PROFILE or
	// "default".
	Credentials string
	// Cluster is the identity of the cluster of the blocks.
	Cluster string
	// Existing means that the cluster has stored blocks here before: a bucket without a marker of the cluster
	// is refused.
	Existing bool
	// Timeout of one call, with all tries.
	Timeout time.Duration
}

// DefaultTimeout is a good Config.Timeout for nearby storage.
const DefaultTimeout = 20 * time.Second

// Validate returns an error with the wrong field, its value and the remedy.
func (c *Config) Validate() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("object storage: endpoint %q: give a URL such as https://s3.eu-west-1.amazonaws.com", c.Endpoint)
	case u.User != nil:
		return fmt.Errorf("object storage: the endpoint at %s has credentials in it: give them by the environment or a file", u.Host)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return fmt.Errorf("object storage: endpoint %q: give only scheme and host; the bucket and the prefix stand apart", c.Endpoint)
	case len(c.Bucket) < 3 || strings.ContainsAny(c.Bucket, "/ "):
		return fmt.Errorf("object storage: bucket %q: give the name of an existing bucket, 3 to 63 letters, digits, dots and dashes", c.Bucket)
	case strings.Trim(c.Prefix, "/") != c.Prefix || strings.Contains(c.Prefix, "//") || len(c.Prefix) > 512:
		return fmt.Errorf("object storage: prefix %q: give at most 512 bytes without slashes at the ends", c.Prefix)
	case c.Timeout <= 0:
		return fmt.Errorf("object storage: timeout %v: give some seconds", c.Timeout)
	}
	return nil
}

// tries is the number of attempts of a request.
const tries = 3

// connect makes the client of the library; it sends requests only to find credentials.
func (c *Config) connect(ctx context.Context, transport http.RoundTripper) (*minio.Core, error) {
	creds, err := c.credentials(ctx)
	if err != nil {
		return nil, err
	}
	return c.open(creds, transport)
}

// open makes the client of the library.
func (c *Config) open(creds *credentials.Credentials, transport http.RoundTripper) (*minio.Core, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupAuto
	if c.PathStyle {
		lookup = minio.BucketLookupPath
	}
	return minio.NewCore(u.Host, &minio.Options{
		Creds: creds, Secure: u.Scheme == "https", Transport: transport, Region: c.Region, BucketLookup: lookup, MaxRetries: tries,
	})
}

// credentials finds the secrets. If there are none, the error names the places of the search.
func (c *Config) credentials(ctx context.Context) (*credentials.Credentials, error) {
	client := &http.Client{Timeout: metadataTimeout}
	where := "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials (AWS_PROFILE names the profile), or give the machine a role"
	creds := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: client},
	})
	if c.Credentials != "" {
		where = fmt.Sprintf("%s must have aws_access_key_id and aws_secret_access_key in the profile that AWS_PROFILE names, or in [default]", c.Credentials)
		creds = credentials.NewFileAWSCredentials(c.Credentials, "")
	}
	value, err := creds.GetWithContext(&credentials.CredContext{Client: client, Context: ctx})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w: %s", ErrNoCredentials, err, where)
	case err != nil:
		return nil, fmt.Errorf("object storage: credentials: %w: %s", err, where)
	case value.AccessKeyID == "" || value.SecretAccessKey == "":
		return nil, fmt.Errorf("%w: %s", ErrNoCredentials, where)
	}
	return creds, nil
}

// metadataTimeout bounds the answer of a machine to a query for its role.
const metadataTimeout = 5 * time.Second
