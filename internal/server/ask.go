package server

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

// isWork reports whether a request shows that a client is working. Idle mounts make other requests, too.
func isWork(kind ask.Kind) bool { return kind == ask.Update || kind == ask.Query }

// ask answers a request of a client to a replica, when the rates of the client and its turn allow it.
func (s *Server) ask(ctx context.Context, h *hosted, client *ask.Client, request []byte) ([]byte, error) {
	if len(request) == 0 {
		return h.driver.Handle(ctx, client, request)
	}
	began, kind := time.Now(), ask.Kind(request[0])
	if client.Bounds() != nil && !s.rates.wait(ctx, client.Owner(), kind, len(request), ask.CountProofs(request)) {
		s.news(client, "a client makes more requests than its rate, and waits: 'clients:' in the cluster file has the rates", "partition", h.partition)
		return (&ask.Reply{Status: ask.Overloaded}).Append(nil), ctx.Err()
	}
	done, err := s.turn(ctx, client, kind)
	if errors.Is(err, errNoTurn) {
		s.news(client, logNoTurn, "partition", h.partition)
		return (&ask.Reply{Status: ask.Overloaded}).Append(nil), nil
	} else if err != nil {
		return nil, err
	}
	defer done()
	if refusal := s.checkStored(ctx, h, client, request); refusal != nil {
		return refusal, nil
	}
	answer, err := h.driver.Handle(ctx, client, request)
	if err == nil {
		h.counts.answered(kind, time.Since(began))
	}
	return answer, err
}

// turn waits for the turn of a request to a replica.
func (s *Server) turn(ctx context.Context, client *ask.Client, kind ask.Kind) (done func(), err error) {
	if !client.GivesWay() && !isWork(kind) {
		return func() {}, nil
	}
	done, err = s.contention.take(ctx, client, patientFor)
	if err == nil && kind == ask.Watch {
		done() // it waits for changes
	}
	return done, err
}

// storageTurn is StorageConfig.Turn.
func (s *Server) storageTurn(ctx context.Context) (done func(), err error) {
	asker := s.cfg.Asker(ctx)
	if asker.isNobody() {
		return func() {}, nil // the request is refused
	}
	done, err = s.contention.take(ctx, asker.client(), blockTimeout)
	if errors.Is(err, errNoTurn) {
		s.news(asker.client(), logNoTurn)
	}
	return done, err
}

// logNoTurn is the message about a client with requests that were refused with errNoTurn.
const logNoTurn = "the processors of this server are short: requests of a client were refused, because other clients work and its turn did not come in time"

// news logs a message about a client, once a minute.
func (s *Server) news(client *ask.Client, message string, more ...any) {
	if s.rates.isNews(client.Owner()) {
		s.cfg.Logger.Warn(message, append([]any{"server", s.cfg.Name, "client", client.Owner()}, more...)...)
	}
}
