package objects_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
)

// plain is an S3 server with the part of S3 that Get and Put need. It does not know conditions: with refuses
// it reports that, otherwise it ignores them.
type plain struct {
	refuses bool

	mu      sync.Mutex
	objects map[string][]byte                                        // GUARDED_BY mu
	answer  func(w http.ResponseWriter, r *http.Request) (done bool) // GUARDED_BY mu; nil: none
}

func (p *plain) set(answer func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// refuseWhatIsThere makes a server evaluate conditions.
func (p *plain) refuseWhatIsThere(w http.ResponseWriter, r *http.Request) (done bool) {
	if r.Header.Get("If-None-Match") == "" || p.objects[r.URL.Path] == nil {
		return false
	}
	say(w, http.StatusPreconditionFailed, "PreconditionFailed")
	return true
}

// say writes an error in the format of S3.
func say(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>said so</Message></Error>`, code)
}

func (p *plain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer != nil && p.answer(w, r) {
		return
	}
	switch {
	case p.refuses && r.Header.Get("If-None-Match") != "":
		say(w, http.StatusNotImplemented, "NotImplemented")
	case r.Method == http.MethodPut:
		content, err := io.ReadAll(r.Body)
		if err == nil {
			p.objects[r.URL.Path] = content
		}
	case p.objects[r.URL.Path] == nil:
		say(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")
		_, _ = w.Write(p.objects[r.URL.Path])
	}
}

func startPlain(t *testing.T, refuses bool) (*plain, objects.Config) {
	credentials := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(credentials, []byte("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"), 0o600))
	p := &plain{refuses: refuses, objects: map[string][]byte{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return p, objects.Config{
		Endpoint: server.URL, Bucket: objectstest.Bucket, Region: "us-east-1", PathStyle: true, Cluster: "one", Timeout: 5 * time.Second,
		Credentials: credentials,
	}
}

// With a server that does not support conditions, the store compares an existing block before a put.
func TestServersWithoutConditions(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		_, c := startPlain(t, refuses)
		open(t, c)
		s := open(t, c)
		id, data := blocktest.Block(1, 5000)
		for range 2 {
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		}
		_, other := blocktest.Block(2, 5000)
		require.ErrorIs(t, s.Put(t.Context(), block.New(id, other)), block.ErrConflict)
		blocktest.RequireBlock(t, s, id, data)
		c.Cluster = "two"
		_, err := objects.Open(t.Context(), c)
		require.ErrorContains(t, err, "another cluster")
	}
}

// TestConditionConflict: a put that conflicts with another one is tried again, with a bound.
func TestConditionConflict(t *testing.T) {
	p, c := startPlain(t, false)
	p.set(p.refuseWhatIsThere)
	s := open(t, c)
	for conflicts, want := range map[int]error{2: nil, 1000: block.ErrUnavailable} {
		id, data := blocktest.Block(conflicts, 5000)
		requests := 0
		p.set(func(w http.ResponseWriter, _ *http.Request) bool {
			if requests++; requests > conflicts {
				return false
			}
			say(w, http.StatusConflict, "ConditionalRequestConflict")
			return true
		})
		require.ErrorIs(t, s.Put(t.Context(), block.New(id, data)), want)
		require.Equal(t, 3, requests)
	}
}

// TestHungUp: a server that has a block refuses it without reading it. The refusal is lost when the server
// hangs up.
func TestHungUp(t *testing.T) {
	p, c := startPlain(t, false)
	p.set(p.refuseWhatIsThere)
	s := open(t, c)
	id, data := blocktest.Block(1, 500_000)
	absent, _ := blocktest.Block(2, 1)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	p.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0)) // a reset
		require.NoError(t, conn.Close())
		return true
	})
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	_, other := blocktest.Block(3, 500_000)
	require.ErrorIs(t, s.Put(t.Context(), block.New(id, other)), block.ErrConflict)
	require.ErrorIs(t, s.Put(t.Context(), block.New(absent, data)), block.ErrUnavailable)
}

// TestAnswers: the server's answer to a get and a put, the result, and the number of requests.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer   func(w http.ResponseWriter)
		want     error
		say      string
		requests int
	}{
		"slow down":    {func(w http.ResponseWriter) { say(w, http.StatusServiceUnavailable, "SlowDown") }, block.ErrUnavailable, "SlowDown", 3},
		"internal":     {func(w http.ResponseWriter) { say(w, http.StatusInternalServerError, "InternalError") }, block.ErrUnavailable, "", 3},
		"gateway":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, block.ErrUnavailable, "502", 3},
		"too many":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, block.ErrUnavailable, "429", 3},
		"full":         {func(w http.ResponseWriter) { say(w, http.StatusInsufficientStorage, "XMinioStorageFull") }, block.ErrNoSpace, "", 1},
		"quota":        {func(w http.ResponseWriter) { say(w, http.StatusForbidden, "QuotaExceeded") }, block.ErrNoSpace, "", 1},
		"forbidden":    {func(w http.ResponseWriter) { say(w, http.StatusForbidden, "AccessDenied") }, nil, "must be allowed", 1},
		"clock":        {func(w http.ResponseWriter) { say(w, http.StatusForbidden, "RequestTimeTooSkewed") }, nil, "set the clock", 1},
		"elsewhere":    {func(w http.ResponseWriter) { say(w, http.StatusMovedPermanently, "PermanentRedirect") }, nil, "endpoint of the bucket's region", 1},
		"proxy's 404":  {func(w http.ResponseWriter) { http.Error(w, "<html>no such page</html>", http.StatusNotFound) }, nil, "404", 1},
		"broken off":   {breakOff, block.ErrUnavailable, "EOF", 3},
		"no answer":    {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, block.ErrUnavailable, "", 3},
		"unknown code": {func(w http.ResponseWriter) { say(w, http.StatusBadRequest, "Whatever") }, nil, "400 Whatever", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := startPlain(t, false)
			s := open(t, c)
			id, data := blocktest.Block(1, 5000)
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
			requests := 0 // one at a time
			p.set(func(w http.ResponseWriter, _ *http.Request) bool {
				requests++
				test.answer(w)
				return true
			})
			check := func(err error) {
				require.ErrorContains(t, err, test.say)
				require.NotErrorIs(t, err, block.ErrNotFound)
				for _, kind := range []error{block.ErrUnavailable, block.ErrNoSpace, block.ErrCorrupt} {
					require.Equal(t, errors.Is(test.want, kind), errors.Is(err, kind), "%v", err)
				}
			}
			_, err := s.Get(t.Context(), id, nil)
			check(err)
			p.set(nil)
			if name == "no answer" { // net/http itself sends the request once more on another connection
				require.GreaterOrEqual(t, requests, test.requests)
			} else {
				require.Equal(t, test.requests, requests)
			}
			blocktest.RequireBlock(t, s, id, data)
			p.set(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut {
					test.answer(w)
				}
				return r.Method == http.MethodPut
			})
			if name != "broken off" { // the answer to a put has no content
				other, _ := blocktest.Block(2, 1)
				check(s.Put(t.Context(), block.New(other, data)))
			}
		})
	}
}

// TestBrokenOffOnce: after an answer that was cut in the middle the request is sent again.
func TestBrokenOffOnce(t *testing.T) {
	p, c := startPlain(t, false)
	s := open(t, c)
	id, data := blocktest.Block(1, 5000)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	cut := 0
	p.set(func(w http.ResponseWriter, _ *http.Request) bool {
		if cut++; cut > 2 {
			return false
		}
		breakOff(w)
		return true
	})
	blocktest.RequireBlock(t, s, id, data)
}

// breakOff promises an object and ends in the middle.
func breakOff(w http.ResponseWriter) {
	w.Header().Set("Content-Length", strconv.Itoa(5008))
	w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")
	_, _ = w.Write(make([]byte, 3000))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
