package cli

import (
	"context"
	"strings"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/command"
)

// openRepository opens a repository of backups: a directory, or a place in object storage. The caller calls
// end when it is not needed any more.
func openRepository(ctx context.Context, where string, create bool) (r *backup.Repository, end func(), err error) {
	if !strings.HasPrefix(where, "s3://") {
		r, err = backup.OpenDirectory(where, create)
		return r, func() {}, err
	}
	place, err := parseBucket("repository", where)
	if err != nil {
		return nil, nil, command.InputError(err)
	}
	bucket, err := objects.OpenBucket(ctx, objects.Config{
		Endpoint: place.Endpoint, Bucket: place.Bucket, Prefix: place.Prefix, Region: place.Region, PathStyle: place.PathStyle,
		Credentials: place.Credentials, Timeout: objects.DefaultTimeout,
	})
	if err != nil {
		return nil, nil, err
	}
	where, _, _ = strings.Cut(where, "?")
	if r, err = backup.Open(ctx, bucket, where, create); err != nil {
		_ = bucket.Close() // it only ends connections
		return nil, nil, err
	}
	return r, func() { _ = bucket.Close() }, nil
}
