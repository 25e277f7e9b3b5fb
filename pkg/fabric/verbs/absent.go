//go:build !rdma

package verbs

import "errors"

// errAbsent is the error of New in a program that was built without RDMA.
var errAbsent = errors.New("verbs: this program is built without RDMA: install libibverbs-dev, and build it with CGO_ENABLED=1 go build -tags rdma")

// New makes an endpoint. Close ends it. In this build it always fails.
func New(cfg Config) (Endpoint, error) {
	if _, err := cfg.complete(); err != nil {
		return nil, err
	}
	return nil, errAbsent
}
