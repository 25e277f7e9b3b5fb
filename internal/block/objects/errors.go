package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/minio/minio-go/v7"

	"github.com/globalfs/globalfs/internal/block"
)

var errSeek = errors.New("an object is read from its beginning")

// conditionConflict is a code of S3 without a name in the library.
const conditionConflict = "ConditionalRequestConflict"

// remedies are the remedies for answers that stay the same after a retry.
var remedies = map[string]string{
	minio.NoSuchBucket:             "make the bucket, or give the name of another",
	minio.AccessDenied:             "the credentials must be allowed GetObject, PutObject, DeleteObject and ListBucket on bucket and prefix",
	"InvalidAccessKeyId":           "the endpoint does not know the access key: check AWS_ACCESS_KEY_ID or the credentials file",
	"XAdminUserNotFound":           "the endpoint does not know the access key: check AWS_ACCESS_KEY_ID or the credentials file", // versitygw
	"SignatureDoesNotMatch":        "check the secret access key and the region",
	"RequestTimeTooSkewed":         "set the clock of this machine: it is too far from that of the object storage",
	"ExpiredToken":                 "the session token is too old: get new credentials",
	"InvalidToken":                 "the session token is not good: get new credentials",
	"AuthorizationHeaderMalformed": "give the region of the bucket",
	"InvalidRegion":                "give the region of the bucket",
	"PermanentRedirect":            "give the endpoint of the bucket's region",
	"TemporaryRedirect":            "give the endpoint of the bucket's region",
	"InvalidBucketName":            "give the name of an existing bucket",
}

// full are the answers of a full storage.
var full = map[string]bool{
	"QuotaExceeded": true, "XMinioStorageFull": true, "XMinioAdminBucketQuotaExceeded": true, "InsufficientStorage": true,
	"EntityTooLarge": true, "StorageFull": true,
}

// translate converts an error of the library to one of package block. doing names the operation and its
// object.
func (s *Store) translate(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	where := fmt.Sprintf("%s at %s", doing, s.config.Endpoint)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", where, ctx.Err())
	}
	answer, answered := answerOf(err)
	switch {
	case refusal(err) != nil:
		return fmt.Errorf("%s: %w", where, err)
	case !answered && isNetwork(err):
		return fmt.Errorf("%s: %w: %w", where, block.ErrUnavailable, err)
	case !answered:
		return fmt.Errorf("%s: %w", where, err)
	case isMissing(answer):
		return fmt.Errorf("%s: %w", where, block.ErrNotFound)
	case full[answer.Code] || answer.StatusCode == http.StatusInsufficientStorage:
		return fmt.Errorf("%s: %w: %w", where, block.ErrNoSpace, err)
	case remedies[answer.Code] != "":
		return fmt.Errorf("%s: %s: %w: %s", where, answer.Code, err, remedies[answer.Code])
	case isOverloaded(answer):
		return fmt.Errorf("%s: %w: %d %s: %w", where, block.ErrUnavailable, answer.StatusCode, answer.Code, err)
	}
	return fmt.Errorf("%s: %d %s: %w", where, answer.StatusCode, answer.Code, err)
}

// answerOf returns the answer in an error, if the server has given one.
func answerOf(err error) (minio.ErrorResponse, bool) {
	var answer minio.ErrorResponse
	return answer, errors.As(err, &answer)
}

// isMissing reports whether the object storage answered that there is no object with a key. The library also
// reports this for a 404 without a description, which comes from another server.
func isMissing(answer minio.ErrorResponse) bool {
	return answer.Code == minio.NoSuchKey && answer.XMLName.Local != ""
}

// isOverloaded reports whether the same request may succeed later.
func isOverloaded(answer minio.ErrorResponse) bool {
	switch answer.Code {
	case "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted", conditionConflict:
		return true
	}
	return answer.StatusCode >= http.StatusInternalServerError && answer.StatusCode != http.StatusNotImplemented ||
		answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout
}

// isHungUp reports whether a connection ended before the answer to a request arrived: the server may have
// sent one.
func isHungUp(err error) bool {
	_, answered := answerOf(err)
	return !answered && isNetwork(err) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, context.DeadlineExceeded)
}

// isNetwork reports whether err means that the server was not reached or did not finish its answer.
func isNetwork(err error) bool {
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
