package server

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

// isWork reports whether a request shows that a client is working. Idle mounts make other requests, too.
func isWork(kind ask.Kind) bool { return kind == ask.Update || kind == ask.Query }

// admission decides when the requests of clients are executed: by the rates of each client, and by its turn.
type admission struct {
	cfg        *Config
	rates      *rates
	contention *contention
}

func newAdmission(cfg *Config) *admission {
	return &admission{cfg: cfg, rates: newRates(cfg.ClientRates), contention: newContention()}
}

// ask answers a request of a client to a replica, when the rates of the client and its turn allow it.
func (s *Server) ask(ctx context.Context, h *hosted, client *ask.Client, request []byte) ([]byte, error) {
	if len(request) == 0 {
		return h.driver.Handle(ctx, client, request)
	}
	began, kind := time.Now(), ask.Kind(request[0])
	done, err := s.admission.admit(ctx, h.partition, client, request)
	if err != nil {
		return nil, err
	}
	if done == nil {
		return (&ask.Reply{Status: ask.Overloaded}).Append(nil), nil
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

// admit waits until a request to the replica of a partition may be executed. done ends the request; nil: the
// client must try again, here or at another replica.
func (a *admission) admit(ctx context.Context, partition uint16, client *ask.Client, request []byte) (done func(), err error) {
	kind := ask.Kind(request[0])
	if client.Bounds() != nil && !a.rates.wait(ctx, client.Owner(), kind, len(request), ask.CountProofs(request)) {
		a.news(client, "a client makes more requests than its rate, and waits: 'clients:' in the cluster file has the rates", "partition", partition)
		return nil, ctx.Err()
	}
	done, err = a.turn(ctx, client, kind)
	if errors.Is(err, errNoTurn) {
		a.news(client, logNoTurn, "partition", partition)
		return nil, nil
	}
	return done, err
}

// turn waits for the turn of a request to a replica.
func (a *admission) turn(ctx context.Context, client *ask.Client, kind ask.Kind) (done func(), err error) {
	if !client.IsNarrow() && !isWork(kind) {
		return func() {}, nil
	}
	done, err = a.contention.take(ctx, client, patientFor)
	if err == nil && kind == ask.Watch {
		done() // it waits for changes
	}
	return done, err
}

// storage waits for the turn of a request to the storage server (StorageConfig.Turn).
func (a *admission) storage(ctx context.Context) (done func(), err error) {
	asker := a.cfg.Asker(ctx)
	if asker.isNobody() {
		return func() {}, nil // the request is refused
	}
	done, err = a.contention.take(ctx, asker.client(), blockTimeout)
	if errors.Is(err, errNoTurn) {
		a.news(asker.client(), logNoTurn)
	}
	return done, err
}

// logNoTurn is the message about a client with requests that were refused with errNoTurn.
const logNoTurn = "the processors of this server are short: requests of a client were refused, because other clients work and its turn did not come in time"

// news logs a message about a client, once a minute.
func (a *admission) news(client *ask.Client, message string, more ...any) {
	if a.rates.isNews(client.Owner()) {
		a.cfg.Logger.Warn(message, append([]any{"server", a.cfg.Name, "client", client.Owner()}, more...)...)
	}
}
