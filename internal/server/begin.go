package server

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/transport"
)

// later implements transport.Asynchronous for a replica. It begins the calls that need nothing but an answer
// of the replica's driver.
type later struct {
	server *Server
	hosted *hosted
}

// Begin implements transport.Asynchronous. It does not begin calls that may be refused or must wait;
// Server.serve handles these.
func (l later) Begin(ctx context.Context, request []byte, caller transport.Caller) (token uint64, begun bool) {
	h, asker := l.hosted, l.server.cfg.Asker(ctx)
	if asker.isNobody() || h.catching.Load() || h.amnesiac.Load() || len(request) == 0 || isOfServers(request) {
		return 0, false
	}
	client := asker.client()
	if client.Bounds() != nil {
		return 0, false // the call may have to wait for the rate of the client, or for a check of its blocks
	}
	if isWork(ask.Kind(request[0])) {
		l.server.admission.contention.note(client)
	}
	began := time.Now()
	return h.driver.Begin(client, request, &timedCall{Caller: caller, counts: h.counts, kind: request[0], began: began}), true
}

// Withdraw implements transport.Asynchronous.
func (l later) Withdraw(token uint64) { l.hosted.driver.Withdraw(token) }

// timedCall measures the time until a call is answered.
type timedCall struct {
	transport.Caller
	counts *counts
	kind   byte
	began  time.Time
}

// Answer implements transport.Caller.
func (c *timedCall) Answer(reply []byte, err error) {
	if err == nil {
		c.counts.answered(ask.Kind(c.kind), time.Since(c.began))
	}
	c.Caller.Answer(reply, err)
}
