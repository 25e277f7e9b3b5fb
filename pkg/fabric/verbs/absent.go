//go:build !verbs

package verbs

import "errors"

// errAbsent is the error of New in a program that was built without RDMA.
var errAbsent = errors.New("verbs: this program is built without RDMA: install libibverbs-dev, and build it with CGO_ENABLED=1 go build -tags verbs")

// New creates an endpoint. In this build it always returns an error.
func New(cfg Config) (Endpoint, error) {
	if _, err := cfg.complete(); err != nil {
		return nil, err
	}
	return nil, errAbsent
}

// Check returns the reason why New cannot use a device, or nil. The empty name means the first device. In
// this build it always returns an error.
func Check(string) error { return errAbsent }
