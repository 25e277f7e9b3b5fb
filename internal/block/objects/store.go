package objects

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/globalfs/globalfs/internal/block"
)

// Store is the block.Store of one prefix of a bucket. It has no goroutine of its own.
type Store struct {
	config      Config
	prefix      string // of keys, with its slash
	core        *minio.Core
	transport   *http.Transport
	conditional bool         // the server knows conditional puts
	signer      block.Signer // of all requests; nil: the store has credentials
}

// Open connects to the object storage, and claims the prefix for the cluster if it is unclaimed. The caller
// closes the store.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config, transport: newTransport(config.Timeout)}
	if config.Prefix != "" {
		s.prefix = config.Prefix + "/"
	}
	var err error
	if s.core, err = config.connect(ctx, settling{s.transport}); err != nil {
		return nil, err
	}
	if err := s.claim(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the unused connections; calls under way continue.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Put implements block.Store.
func (s *Store) Put(ctx context.Context, b block.Block) error {
	if err := b.CheckSize(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	err := s.put(limited, &b)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return unavailable(err)
}

// put stores a block that is absent, or has a bad copy.
func (s *Store) put(ctx context.Context, b *block.Block) error {
	o, key, size := newObject(b), s.key(b.ID), int64(headerSize+len(b.Data))
	if s.signer != nil {
		ctx = s.withSigning(ctx, signingOf(block.SignPut, o, b.ID))
	}
	if !s.conditional {
		if err := s.compare(ctx, b); !isAbsent(err) {
			return err
		}
		return s.translate(ctx, "put block "+b.ID.String(), s.upload(ctx, key, o, size, false))
	}
	ifAbsent, conflicts := true, 0
	for ctx.Err() == nil {
		err := s.upload(ctx, key, o, size, ifAbsent)
		answer, _ := answerOf(err)
		switch {
		case answer.Code == minio.PreconditionFailed || answer.StatusCode == http.StatusPreconditionFailed:
			err := s.compare(ctx, b)
			if !isAbsent(err) {
				return err
			}
			ifAbsent = errors.Is(err, block.ErrNotFound) // deleted meanwhile; a bad copy is replaced
		case answer.Code == conditionConflict && conflicts < tries-1: // another put of the block is under way
			conflicts++
		case ifAbsent && isHungUp(err): // perhaps an unread refusal: the server may have the block
			found := s.compare(ctx, b)
			if found == nil || errors.Is(found, block.ErrConflict) {
				return found
			}
			return s.translate(ctx, "put block "+b.ID.String(), err)
		default:
			return s.translate(ctx, "put block "+b.ID.String(), err)
		}
	}
	return ctx.Err()
}

// isAbsent reports whether there is no good copy.
func isAbsent(err error) bool {
	return errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt)
}

// compare returns nil if the stored block has these data, and ErrConflict if it has other data.
func (s *Store) compare(ctx context.Context, b *block.Block) error {
	if s.signer != nil { // a client that may put a block may have no right to get it
		_, err := s.signer.Sign(ctx, signingOf(block.SignCompare, newObject(b), b.ID))
		return err
	}
	found, err := s.get(ctx, b.ID, nil)
	if err != nil {
		return err
	}
	if !bytes.Equal(found, b.Data) {
		return fmt.Errorf("put block %v: %w", b.ID, block.ErrConflict)
	}
	return nil
}

// checked is content that can be read again for a retry, with a known CRC32C.
type checked interface {
	io.ReadSeeker
	sum() []byte
}

// upload puts one object, with ifAbsent only if there is none. The server verifies the received bytes.
func (s *Store) upload(ctx context.Context, key string, content checked, size int64, ifAbsent bool) error {
	opts := minio.PutObjectOptions{
		DisableContentSha256: true, // the checksum is cheaper, and TLS signs
		UserMetadata:         map[string]string{"x-amz-checksum-crc32c": base64.StdEncoding.EncodeToString(content.sum())},
	}
	if ifAbsent {
		opts.SetMatchETagExcept("*")
	}
	_, err := s.core.PutObject(ctx, s.config.Bucket, key, content, size, "", "", opts)
	return err
}

// Get implements block.Store.
func (s *Store) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	data, err := s.get(limited, id, into)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return data, unavailable(err)
}

// get repeats a download with an incomplete answer, which the library does not repeat.
func (s *Store) get(ctx context.Context, id block.ID, into []byte) (data []byte, err error) {
	for range tries {
		data, err = s.download(ctx, id, into)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
	}
	var corrupt *block.CorruptError
	if errors.As(err, &corrupt) {
		return nil, err
	}
	return data, s.translate(ctx, "get block "+id.String(), err)
}

// download reads and verifies an object.
func (s *Store) download(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	ctx = s.withSigning(ctx, block.Signing{Do: block.SignGet, ID: id, Right: block.RightOf(ctx)})
	body, info, _, err := s.core.GetObject(ctx, s.config.Bucket, s.key(id), minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // the content is verified
	content, size := io.Reader(body), info.Size
	if size < 0 { // a proxy did not report it
		all, err := io.ReadAll(io.LimitReader(body, headerSize+block.MaxSize+1))
		if err != nil {
			return nil, err
		}
		content, size = bytes.NewReader(all), int64(len(all))
	}
	if size <= headerSize || size > headerSize+block.MaxSize {
		return nil, s.corrupt(id, fmt.Errorf("the object has %d bytes", size))
	}
	var h [headerSize]byte
	if _, err := io.ReadFull(content, h[:]); err != nil {
		return nil, err
	}
	n := int(size) - headerSize
	data := slices.Grow(into[:0], n)[:n]
	if _, err := io.ReadFull(content, data); err != nil {
		return nil, err
	}
	if h != header(block.Sum(id, data)) {
		return nil, s.corrupt(id, nil)
	}
	return data, nil
}

func (s *Store) corrupt(id block.ID, cause error) error {
	return &block.CorruptError{ID: id, File: s.config.Bucket + "/" + s.key(id), Cause: cause}
}

// unavailable converts the end of this package's own timeout to ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, block.ErrUnavailable) {
		return fmt.Errorf("object storage: %w: %w", block.ErrUnavailable, err)
	}
	return err
}
