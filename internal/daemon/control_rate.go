package daemon

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
)

// Rate of the requests of one client for the state of a server: each asks all its replicas.
const (
	inspectionsPerSecond = 5
	inspectionsAtOnce    = 20
	maxInspectors        = 1024
)

// inspections bound the requests of clients for the state of a server. Admins and servers have no bound. The
// zero value is ready for use.
type inspections struct {
	mu      sync.Mutex
	clients map[string]*rate.Limiter // GUARDED_BY mu; by name
}

// wait blocks until the caller may inspect the server. The error is that of ctx.
func (i *inspections) wait(ctx context.Context) error {
	who := asking(ctx)
	if who.Admin || who.Server {
		return nil
	}
	if err := i.of(who.Name).Wait(ctx); err != nil {
		return fmt.Errorf("too many requests for the state of this server: %w", err)
	}
	return nil
}

func (i *inspections) of(name string) *rate.Limiter {
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.clients[name]
	if l == nil {
		if i.clients == nil || len(i.clients) >= maxInspectors {
			i.clients = map[string]*rate.Limiter{} // a client then has the requests of a new one, once
		}
		l = rate.NewLimiter(inspectionsPerSecond, inspectionsAtOnce)
		i.clients[name] = l
	}
	return l
}
