package hops

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/rdmaconn"
)

// opener gives the endpoints of connections (package rdmaconn) over a provider. Nil: it carries none.
func opener(cfg memory.Config) rdmaconn.Open {
	switch cfg.Provider {
	case "verbs":
		return rdmaconn.Verbs(cfg.Device)
	case "soft":
		return func(self fabric.NodeID, dial func(context.Context, fabric.NodeID) (net.Conn, error)) (rdmaconn.Endpoint, error) {
			return soft.New(soft.Config{Self: self, Dial: dial})
		}
	}
	return nil
}

// serveEchoes answers to connections until stop. The address is empty if the provider carries none.
func serveEchoes(cfg memory.Config) (address string, stop func() error, err error) {
	open := opener(cfg)
	if open == nil {
		return "", func() error { return nil }, nil
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	l, err := rdmaconn.Listen(rdmaconn.Config{Open: open}, inner)
	if err != nil {
		return "", nil, errors.Join(err, inner.Close())
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn) // the parent notices the end
				_ = conn.Close()
			}()
		}
	}()
	return inner.Addr().String(), l.Close, nil
}

// echoes measures the time from a write of 64 bytes to a connection until they are back.
func (w *writer) echoes(ctx context.Context, count int, cfg memory.Config, address string) (l Latency, err error) {
	if address == "" {
		return l, nil
	}
	conn, err := rdmaconn.Dial(ctx, rdmaconn.Config{Open: opener(cfg)}, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	message := make([]byte, 64)
	return w.sample(ctx, count, func() (time.Duration, error) {
		start := time.Now()
		if err := conn.SetDeadline(start.Add(patience)); err != nil {
			return 0, err
		}
		if _, err := conn.Write(message); err != nil {
			return 0, err
		}
		_, err := io.ReadFull(conn, message)
		return time.Since(start), err
	})
}
