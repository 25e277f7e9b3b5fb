package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/globalfs/globalfs/test/wan"
)

// profiler is the access to the profiler of a process.
type profiler struct {
	address string // on the loopback of its host
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// profiled returns the flags with which a process on a host serves the profiler; none without
// Config.Profiled.
func (c *Cluster) profiled(p *Process, host string) ([]string, error) {
	if !c.cfg.Profiled {
		return nil, nil
	}
	address, err := FreeAddress("127.0.0.1") // a free port of this host is most likely free on the other host, too
	if err != nil {
		return nil, err
	}
	p.profile = &profiler{address: address, dial: (&net.Dialer{}).DialContext}
	if lab := c.cfg.Lab; lab != nil && host != wan.Controller {
		p.profile.dial = func(ctx context.Context, _, address string) (net.Conn, error) { return lab.Dial(ctx, host, address) }
	}
	return []string{"--pprof", address}, nil
}

// Profile writes a CPU profile of the process over the given duration, at least one second, in the format of
// pprof.
func (p *Process) Profile(ctx context.Context, duration time.Duration, into io.Writer) (err error) {
	if p.profile == nil {
		return fmt.Errorf("%s serves no profiler", p.Name)
	}
	transport := &http.Transport{DialContext: p.profile.dial}
	defer transport.CloseIdleConnections()
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.profile.address, max(1, int(duration.Round(time.Second).Seconds())))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("profile of %s: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile of %s: %s", p.Name, response.Status)
	}
	if _, err := io.Copy(into, response.Body); err != nil {
		return fmt.Errorf("profile of %s: %w", p.Name, err)
	}
	return nil
}
