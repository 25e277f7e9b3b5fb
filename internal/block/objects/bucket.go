package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/globalfs/globalfs/internal/block"
)

// Bucket is named objects below a prefix of a bucket, for a repository of backups. Its methods may be called
// concurrently.
type Bucket struct {
	store Store // without a claim, and without blocks
}

// OpenBucket connects to the object storage. Config.Cluster and Existing do not count. The caller closes the
// bucket.
func OpenBucket(ctx context.Context, config Config) (*Bucket, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	b := &Bucket{store: Store{config: config, transport: newTransport(config.Timeout)}}
	if config.Prefix != "" {
		b.store.prefix = config.Prefix + "/"
	}
	var err error
	b.store.core, err = config.connect(ctx, settling{b.store.transport})
	return b, err
}

// Close ends the unused connections.
func (b *Bucket) Close() error { return b.store.Close() }

// maxObject bounds the size of an object that is read, in bytes. The largest objects of a repository are the
// manifests.
const maxObject = 256 << 20

// do calls a function with the time limit of the configuration.
func (b *Bucket) do(ctx context.Context, doing string, call func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, b.store.config.Timeout)
	defer cancel()
	err := call(limited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = b.store.translate(limited, doing, err)
	if errors.Is(err, block.ErrNotFound) {
		return fmt.Errorf("%s: %w", doing, fs.ErrNotExist)
	}
	return unavailable(err)
}

// Put stores an object, all of it or nothing. The server verifies the received bytes.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	return b.do(ctx, "put "+name, func(ctx context.Context) error {
		return b.store.upload(ctx, b.store.prefix+name, newNote(data), int64(len(data)), false)
	})
}

// Get returns an object: an error that is fs.ErrNotExist if there is none.
func (b *Bucket) Get(ctx context.Context, name string) (data []byte, err error) {
	err = b.do(ctx, "get "+name, func(ctx context.Context) error {
		for range tries {
			if data, err = b.download(ctx, name); !errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
		}
		return err
	})
	return data, err
}

func (b *Bucket) download(ctx context.Context, name string) ([]byte, error) {
	body, info, _, err := b.store.core.GetObject(ctx, b.store.config.Bucket, b.store.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(body, maxObject+1))
	if len(data) > maxObject {
		return nil, fmt.Errorf("object %s has more than %d bytes: it is not of a repository", b.store.prefix+name, maxObject)
	}
	if err == nil && info.Size >= 0 && int64(len(data)) != info.Size {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// Has reports whether there is an object.
func (b *Bucket) Has(ctx context.Context, name string) (bool, error) {
	err := b.do(ctx, "look for "+name, func(ctx context.Context) error {
		_, err := b.store.core.StatObject(ctx, b.store.config.Bucket, b.store.prefix+name, minio.StatObjectOptions{})
		if answer, ok := answerOf(err); ok && answer.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%w: %w", block.ErrNotFound, err) // the answer to HEAD is the same for a missing bucket
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List returns the names of the objects in a directory, without those in directories below it, in their
// order.
func (b *Bucket) List(ctx context.Context, dir string) (names []string, err error) {
	err = b.do(ctx, "list "+dir, func(ctx context.Context) error {
		for o := range b.store.core.ListObjectsIter(ctx, b.store.config.Bucket, minio.ListObjectsOptions{
			Prefix: b.store.prefix + dir + "/", MaxKeys: math.MaxInt16,
		}) {
			if o.Err != nil {
				return o.Err
			}
			if name := strings.TrimPrefix(o.Key, b.store.prefix); !strings.HasSuffix(name, "/") {
				names = append(names, name)
			}
		}
		return ctx.Err()
	})
	slices.Sort(names)
	return names, err
}
