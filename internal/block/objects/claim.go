package objects

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// marker is the key, under the prefix, of the object that names the cluster.
const marker = "cluster"

// maxMarker bounds the size of a marker that is read, in bytes.
const maxMarker = 1 << 12

// note is the content of a marker, or of an object of a Bucket.
type note struct {
	*bytes.Reader
	text []byte
}

func newNote(text []byte) note { return note{bytes.NewReader(text), text} }

func (n note) sum() []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(n.text, castagnoli))
}

// claim reads or makes the marker, and learns whether the server knows conditional puts.
func (s *Store) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	ours := []byte("GlobalFS blocks 1\ncluster " + s.config.Cluster + "\n")
	found, err := s.readMarker(ctx)
	answer, _ := answerOf(err)
	switch {
	case err != nil && !isMissing(answer):
		return unavailable(s.translate(ctx, "open bucket "+s.config.Bucket, err))
	case err != nil && s.config.Existing:
		return fmt.Errorf("object storage: bucket %s at %s has nothing of this cluster under the prefix %q, which has stored blocks before: "+
			"give the endpoint, bucket and prefix that were given then", s.config.Bucket, s.config.Endpoint, s.config.Prefix)
	case err == nil && !bytes.Equal(found, ours):
		return fmt.Errorf("object storage: bucket %s at %s has the blocks of another cluster under the prefix %q: give another prefix",
			s.config.Bucket, s.config.Endpoint, s.config.Prefix)
	}
	if err != nil { // unclaimed; of two concurrent claims the second one finds the other by its read
		if err := s.writeMarker(ctx, ours); err != nil {
			return err
		}
		return s.claim(ctx)
	}
	return s.probe(ctx, ours)
}

func (s *Store) readMarker(ctx context.Context) ([]byte, error) {
	body, _, _, err := s.core.GetObject(ctx, s.config.Bucket, s.prefix+marker, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // the content is verified
	return io.ReadAll(io.LimitReader(body, maxMarker))
}

// writeMarker makes the marker, unless there is one.
func (s *Store) writeMarker(ctx context.Context, text []byte) error {
	err := s.upload(ctx, s.prefix+marker, newNote(text), int64(len(text)), true)
	answer, _ := answerOf(err)
	if answer.StatusCode == http.StatusPreconditionFailed {
		return nil
	}
	if answer.StatusCode == http.StatusNotImplemented {
		err = s.upload(ctx, s.prefix+marker, newNote(text), int64(len(text)), false)
	}
	return unavailable(s.translate(ctx, "write to bucket "+s.config.Bucket, err))
}

// probe puts the marker once more: a server with conditional puts refuses it.
func (s *Store) probe(ctx context.Context, text []byte) error {
	err := s.upload(ctx, s.prefix+marker, newNote(text), int64(len(text)), true)
	answer, _ := answerOf(err)
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed:
		s.conditional = true
		return nil
	case answer.StatusCode == http.StatusNotImplemented:
		return nil
	}
	return unavailable(s.translate(ctx, "write to bucket "+s.config.Bucket, err))
}
