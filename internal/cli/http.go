package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/metrics"
)

// serveProfiles serves Go's profiler at the loopback address of --pprof. With an empty address it does
// nothing.
func serveProfiles(address string) (stop func() error, err error) {
	if err := checkLoopback(address); err != nil {
		return nil, err
	}
	return serveHTTP("--pprof", address, profiles())
}

// checkLoopback refuses an address of --pprof that other machines reach.
func checkLoopback(address string) error {
	if host, _, err := net.SplitHostPort(address); err == nil && host != "localhost" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return command.InputError(fmt.Errorf("--pprof %q: give a loopback address such as 127.0.0.1:6060", address))
		}
	}
	return nil
}

// checkHTTP returns the error that serving at the addresses of --metrics and --pprof would have now.
func checkHTTP(metrics, profiler string) error {
	if err := checkLoopback(profiler); err != nil {
		return err
	}
	for flag, address := range map[string]string{"--metrics": metrics, "--pprof": profiler} {
		if address == "" {
			continue
		}
		listener, err := listenHTTP(flag, address)
		if err != nil {
			return err
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}

// listenHTTP opens the address of a flag.
func listenHTTP(flag, address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, command.InputError(fmt.Errorf("%s %q: give HOST:PORT such as 127.0.0.1:9464", flag, address))
	}
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %q: another process uses the port: stop it, or choose another port: %w", flag, address, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, command.InputError(fmt.Errorf("%s %q: no address of this machine: give one of this machine, or :PORT for all: %w", flag, address, err))
	case errors.Is(err, syscall.EACCES):
		return nil, command.InputError(fmt.Errorf("%s %q: only root may use ports below 1024: choose another port: %w", flag, address, err))
	}
	return nil, command.InputError(fmt.Errorf("%s %q: give HOST:PORT with a port from 1 to 65535: %w", flag, address, err))
}

// serveHTTP answers HTTP at the address of a flag until stop is called. With an empty address it does
// nothing.
func serveHTTP(flag, address string, handler http.Handler) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	listener, err := listenHTTP(flag, address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close() // for example during a long profile
		}
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// laterHandler answers that the service is unavailable until set is called. So a command can listen on the
// address of a flag at once, and report a bad address before it starts anything else.
type laterHandler struct{ then atomic.Pointer[http.Handler] }

func (l *laterHandler) set(h http.Handler) { l.then.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *laterHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.then.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, "starting: try again", http.StatusServiceUnavailable)
}

// profiles returns the handler of Go's profiler.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// scrapes returns the handler of metrics for Prometheus.
func scrapes(set *metrics.Set) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", set.Handler())
	return mux
}
