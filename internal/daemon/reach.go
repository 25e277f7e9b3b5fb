package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// joinReasons returns the reasons of unreachable servers in one line. Servers with the same reason share it.
func joinReasons(reasons []string) string {
	slices.Sort(reasons)
	var order []string
	servers := map[string][]string{}
	for _, text := range reasons {
		server, reason, split := strings.Cut(text, ": ")
		if !split {
			server, reason = "", text
		}
		if servers[reason] == nil {
			order = append(order, reason)
		}
		servers[reason] = append(servers[reason], server)
	}
	for i, reason := range order {
		order[i] = strings.TrimPrefix(strings.Join(servers[reason], ", ")+": "+reason, ": ")
	}
	return strings.Join(order, "; ")
}

// reasonOf returns the reason why a server cannot be used, without the names of the layers that reported it.
func reasonOf(err error) string {
	text := err.Error()
	if _, reason, ok := strings.Cut(text, "server: "+transport.ErrUnreachable.Error()+": "); ok {
		text = reason
	}
	return Plain(text)
}

// Plain returns the text of an error without the layers of the network that reported it.
func Plain(text string) string {
	return dialing.ReplaceAllString(layers.ReplaceAllString(text, ""), "")
}

// layers matches the layers above the address of an unreachable process.
var layers = regexp.MustCompile(`(storage server \d+: )?((process \d+|server|[^ ]+:\d+): )*` + transport.ErrUnreachable.Error() + `: `)

// dialing matches the text before the reason in errors of package net.
var dialing = regexp.MustCompile(`dial tcp \S+: (connect: )?`)

// askUntil fetches the cluster's description from one server. It retries until ctx ends while the server is
// unreachable, and then returns the last informative error.
func (a *Access) askUntil(ctx context.Context, server string) (d Description, err error) {
	probed := false
	for {
		asked := ask(ctx, a.client, server, &Request{Op: Describe}, &d)
		if asked == nil || !errors.Is(asked, transport.ErrUnreachable) {
			if asked == nil || err == nil || ctx.Err() == nil {
				err = asked
			}
			return d, err
		}
		err = asked
		if !probed {
			probed = true
			if strings.Contains(err.Error(), unknownAuthority) {
				return d, fmt.Errorf("%w: server %s has a certificate of another CA (%s): give the directory with ca.pem and your certificate of this cluster with --certs DIR", errMismatch, server, unknownAuthority)
			}
			if err := a.mismatch(ctx, server); err != nil {
				return d, err
			}
		}
		if pause.For(ctx, patience/4) != nil {
			return d, err
		}
	}
}

// unknownAuthority is in the error of a connection to a server with a certificate of another CA. gRPC keeps
// only the text of the error.
var unknownAuthority = x509.UnknownAuthorityError{}.Error()

// errMismatch means that both ends of a connection do not match: only one of them uses TLS, or they trust
// different CAs.
var errMismatch = errors.New("no connection")

// mismatchPatience is the time in which other servers may still answer after one has refused this kind of
// connection.
const mismatchPatience = time.Second

// mismatch returns the error for a connection that fails because only one end uses TLS; nil: the reason is
// another one.
func (a *Access) mismatch(ctx context.Context, server string) error {
	switch with := a.network.Credentials != nil; transport.Speaks(ctx, server) {
	case transport.TLS:
		if !with {
			return fmt.Errorf("%w: server %s accepts only TLS: give the directory with ca.pem and your certificate with --certs DIR; 'globalfs certs' makes certificates", errMismatch, server)
		}
	case transport.Plain:
		if with {
			return fmt.Errorf("%w: server %s has no certificate and accepts only unencrypted connections: give --certs none, or start the cluster with certificates", errMismatch, server)
		}
	case transport.Unknown:
	}
	return nil
}

// responsive returns the first server that answers and reaches the registry. If none reaches the registry, it
// returns one that answers; nil: none answers.
func (a *Access) responsive(ctx context.Context) *topology.Server {
	a.refresh(ctx)
	return firstAnswer(ctx, a.client, a.present(), a.cfg.Timeout)
}

// firstAnswer asks all servers at the same time, and returns at the first good answer.
func firstAnswer(ctx context.Context, via caller, servers []topology.Server, patience time.Duration) (found *topology.Server) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type answer struct {
		server *topology.Server // nil: no answer
		good   bool             // it reaches the registry
	}
	answers := make(chan answer)
	for _, s := range servers {
		go func() {
			var status ServerStatus
			if ask(ctx, via, s.Address, &Request{Op: Status}, &status) != nil {
				answers <- answer{}
				return
			}
			answers <- answer{&s, status.Registry == ""}
		}()
	}
	chosen := false
	for range servers { // the calls end with ctx after a good answer
		got := <-answers
		if got.server == nil || chosen || found != nil && !got.good {
			continue
		}
		if found, chosen = got.server, got.good; chosen {
			cancel()
		}
	}
	return found
}
