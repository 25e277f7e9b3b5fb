package objects

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/globalfs/globalfs/internal/block"
)

// A process without credentials asks a server of the cluster for each request (block.Signer). The server has
// verified the right of the process to the block. It signs a request that gets this block, or that stores an
// object of a given length and checksum in the place of the block if that is free. The library makes the
// request as with credentials, so retries, checks and errors are the same; only on its way out it gets the
// signed address.

// signedFor is the time for which a signed request is accepted: clocks of servers and storage may differ.
const signedFor = 2 * time.Minute

// ErrNoCredentials means that this machine has no credentials for the object storage.
var ErrNoCredentials = errors.New("object storage: no credentials")

// Headers of a put. S3 refuses a signed request with another value.
const (
	headerChecksum = "X-Amz-Checksum-Crc32c"
	headerIfAbsent = "If-None-Match"
	headerLength   = "Content-Length"
)

func encodeSum(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// Sign implements block.Signer with the credentials of the store.
func (s *Store) Sign(ctx context.Context, q block.Signing) (string, error) {
	headers, method := http.Header{}, http.MethodGet
	switch q.Do {
	case block.SignCompare:
		return "", s.compareSum(ctx, q)
	case block.SignPut:
		switch {
		case !s.conditional:
			return "", fmt.Errorf("put block %v: the object storage does not know conditional puts, so nobody can put without credentials: give this machine credentials: %w", q.ID, block.ErrForbidden)
		case q.Length <= headerSize || q.Length > headerSize+block.MaxSize:
			return "", fmt.Errorf("put block %v: an object of %d bytes: %w", q.ID, q.Length, block.ErrForbidden)
		}
		method = http.MethodPut
		headers.Set(headerIfAbsent, "*")
		headers.Set(headerChecksum, encodeSum(binary.BigEndian.AppendUint32(nil, q.Sum)))
		headers.Set(headerLength, strconv.FormatUint(uint64(q.Length), 10))
	}
	u, err := s.core.PresignHeader(ctx, method, s.config.Bucket, s.key(q.ID), signedFor, nil, headers)
	if err != nil {
		return "", fmt.Errorf("sign a request for block %v: %w", q.ID, err)
	}
	return u.String(), nil
}

// compareSum compares the stored object of a block with a checksum.
func (s *Store) compareSum(ctx context.Context, q block.Signing) error {
	data, err := s.Get(ctx, q.ID, nil)
	if err != nil {
		return err
	}
	b := block.New(q.ID, data)
	if binary.BigEndian.Uint32(newObject(&b).sum()) != q.Sum {
		return fmt.Errorf("put block %v: %w", q.ID, block.ErrConflict)
	}
	return nil
}

// OpenSigned returns a store that sends requests which signer has signed. It can get and put blocks, and
// neither delete nor list them. It sends nothing. The caller closes the store.
func OpenSigned(config Config, signer block.Signer) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config, transport: newTransport(config.Timeout), conditional: true, signer: signer}
	if config.Prefix != "" {
		s.prefix = config.Prefix + "/"
	}
	if s.config.Region == "" {
		s.config.Region = "us-east-1" // otherwise the library asks for it; the signed address has the right one
	}
	var err error
	s.core, err = s.config.open(credentials.NewStaticV4("", "", ""), signedTransport{settling{s.transport}, signer})
	return s, err
}

type signingKey struct{}

// withSigning adds the operation that a server is to sign to the context of a request.
func (s *Store) withSigning(ctx context.Context, q block.Signing) context.Context {
	if s.signer == nil {
		return ctx
	}
	return context.WithValue(ctx, signingKey{}, q)
}

// signingOf returns the operation to be signed for the storage of an object.
func signingOf(do block.Signed, o *object, id block.ID) block.Signing {
	return block.Signing{Do: do, ID: id, Length: uint32(headerSize + len(o.data)), Sum: binary.BigEndian.Uint32(o.sum())}
}

// signedTransport gives requests their signed address.
type signedTransport struct {
	to     settling
	signer block.Signer
}

// RoundTrip implements http.RoundTripper.
func (t signedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	q, ok := r.Context().Value(signingKey{}).(block.Signing)
	if !ok {
		return nil, fmt.Errorf("this machine has no credentials for the object storage, and can only get and put blocks: %w", block.ErrForbidden)
	}
	address, err := t.signer.Sign(r.Context(), q)
	if err != nil {
		return nil, err
	}
	signed, err := http.NewRequestWithContext(r.Context(), r.Method, address, nil)
	if err != nil {
		return nil, fmt.Errorf("signed request for block %v: %w", q.ID, err)
	}
	signed.Body, signed.ContentLength = r.Body, r.ContentLength
	for _, name := range []string{headerIfAbsent, headerChecksum, "User-Agent"} { // S3 refuses others that are not signed
		if value := r.Header.Get(name); value != "" {
			signed.Header.Set(name, value)
		}
	}
	return t.to.RoundTrip(signed)
}

// refusal returns the error of a signer in an error of the library.
func refusal(err error) error {
	for _, kind := range []error{block.ErrForbidden, block.ErrNotFound, block.ErrConflict} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return nil
}
