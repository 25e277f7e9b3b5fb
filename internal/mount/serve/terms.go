package serve

import (
	"errors"
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// greet answers the kernel's first request, which lists its capabilities.
func (s *server) greet() error {
	buf := make([]byte, readBuffer)
	n, err := s.conn.read(buf, s.conn.pauses.Load())
	if err != nil {
		return fmt.Errorf("the kernel does not begin: %w", err)
	}
	if s.terms, err = s.agree(buf[:n:n]); err != nil {
		return err
	}
	return s.conn.write(s.terms.Reply)
}

// agree returns the terms for a kernel's INIT. From then on requests can be answered.
func (s *server) agree(hello []byte) (Terms, error) {
	if len(hello) < inHeaderSize || (&request{raw: hello}).op() != opInit {
		return Terms{}, errors.New("the kernel does not begin with INIT")
	}
	answer := make([]byte, maxFixed)
	n, status := s.protocol.HandleRequest([][]byte{hello}, [][]byte{answer})
	if n < outHeaderSize || !status.Ok() || statusOf(answer) != 0 {
		return Terms{}, fmt.Errorf("the kernel's FUSE protocol is too old: INIT gives %v", status)
	}
	return Terms{hello, answer[:n]}, nil
}

// resends reports whether the kernel can repeat the requests of a dead process.
func (t *Terms) resends() bool {
	flags2 := uint32At(t.Reply, outHeaderSize+32) // of struct fuse_init_out
	return uint64(flags2)<<32&fuse.CAP_HAS_RESEND != 0 && uint64(uint32At(t.Request, inHeaderSize+16))<<32&fuse.CAP_HAS_RESEND != 0
}

// statusOf returns the negative errno of an answer.
func statusOf(answer []byte) int32 { return int32(uint32At(answer, 4)) }

// resend makes the kernel repeat, with new unique ids, all requests that any process has read and not
// answered. No reader may be active.
func (s *server) resend() error {
	if !s.terms.resends() {
		return ErrNoResend
	}
	if err := s.conn.resend(); err != nil {
		return errors.Join(ErrNoResend, err)
	}
	return nil
}
