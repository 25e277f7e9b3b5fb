package server

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

// isWork reports whether a request shows that its client works. Idle mounts send other requests, too.
func isWork(kind ask.Kind) bool { return kind == ask.Update || kind == ask.Query }

// admission decides when a request of a client is executed: it enforces the rates of each client (rates) and
// its turn on short processors (contention).
type admission struct {
	cfg        *Config
	rates      *rates
	contention *contention
}

func newAdmission(cfg *Config) *admission {
	return &admission{cfg: cfg, rates: newRates(cfg.ClientRates), contention: newContention()}
}

// ask answers a request of a client to a replica, after the rates and the turn of the client permit it.
func (s *Server) ask(ctx context.Context, h *hosted, client *ask.Client, request []byte) ([]byte, error) {
	if len(request) == 0 {
		return h.driver.Handle(ctx, client, request)
	}
	if client.Bounds() != nil {
		h.noteBoundedUse()
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

// admit waits until a request to the replica of a partition may be executed. The caller calls done after the
// request. If done is nil, the client must try again, at this or another replica.
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
		done() // the request waits for changes and uses no processor
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

// logNoTurn is the log message about a client with requests that were refused with errNoTurn.
const logNoTurn = "the processors of this server are short: requests of a client were refused, because other clients work and its turn did not come in time"

// news logs a message about a client, at most once a minute.
func (a *admission) news(client *ask.Client, message string, more ...any) {
	if a.rates.isNews(client.Owner()) {
		a.cfg.Logger.Warn(message, append([]any{"server", a.cfg.Name, "client", client.Owner()}, more...)...)
	}
}
