package daemon

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync"

	"github.com/globalfs/globalfs/internal/topology"
)

// DebugReport is the internal state of a server process, for developers.
type DebugReport struct {
	Goroutines string `json:"goroutines"` // stacks of all goroutines, with the number of goroutines for each
	Metrics    string `json:"metrics"`    // in the format of Prometheus
}

// maxDebugPart bounds each part of a DebugReport, in bytes.
const maxDebugPart = 2 << 20

// debug returns the DebugReport of this server.
func (s *Server) debug() (*DebugReport, error) {
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		return nil, fmt.Errorf("goroutines: %w", err)
	}
	scrape := page{header: http.Header{}}
	s.Metrics().Handler().ServeHTTP(&scrape, &http.Request{Method: http.MethodGet, Header: http.Header{}})
	return &DebugReport{Goroutines: limited(&stacks), Metrics: limited(&scrape.body)}, nil
}

// limited returns the first maxDebugPart bytes of a text.
func limited(text *bytes.Buffer) string {
	if text.Len() <= maxDebugPart {
		return text.String()
	}
	return string(text.Bytes()[:maxDebugPart]) + "\n... cut here\n"
}

// page is an http.ResponseWriter that keeps the response in memory.
type page struct {
	header http.Header
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
func (p *page) WriteHeader(int)             {}

// DebugAnswer is the DebugReport of a server, or the error of the call.
type DebugAnswer struct {
	Server string
	Report DebugReport
	Err    error
}

// Debug fetches the DebugReports of all servers at once. The servers require the certificate of an admin.
func (a *Access) Debug(ctx context.Context) []DebugAnswer {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	var servers []topology.Server
	for _, s := range a.Cluster().Servers {
		if s.State != topology.StorageLeft {
			servers = append(servers, s)
		}
	}
	answers := make([]DebugAnswer, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		answers[i].Server = s.Name
		asking.Go(func() { answers[i].Err = ask(ctx, a.client, s.Address, &Request{Op: Debug}, &answers[i].Report) })
	}
	asking.Wait()
	return answers
}
