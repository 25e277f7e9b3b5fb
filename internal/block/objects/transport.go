package objects

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// newTransport makes connections for one store. Many blocks are put and read at once, so connections are
// kept.
func newTransport(timeout time.Duration) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.ResponseHeaderTimeout = timeout / tries // a stuck connection leaves time for another
	t.DisableCompression = true               // blocks are bytes
	t.Protocols = new(http.Protocols)         // HTTP/2 would send all blocks through one connection
	t.Protocols.SetHTTP1(true)
	return t
}

// settling is a RoundTripper that does not use the body of a request after its return. An http.Transport may
// still read the body, if the answer came early or the context ended, while the caller of Put already has its
// bytes back, and a retry rewinds them.
type settling struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (s settling) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return s.Transport.RoundTrip(request)
	}
	body := &body{ReadCloser: request.Body}
	sent := *request
	sent.Body, sent.GetBody = body, nil
	defer body.settle()
	return s.Transport.RoundTrip(&sent)
}

// body is the body of a request that can be taken away from its reader.
type body struct {
	io.ReadCloser
	mu      sync.Mutex
	settled bool // GUARDED_BY mu
}

var errSettled = errors.New("the request is over")

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.settled {
		return 0, errSettled
	}
	return b.ReadCloser.Read(into)
}

func (b *body) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = true
}
