package daemon

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
)

// Rate at which one client may request the state of a server. Each request asks all replicas of the server.
const (
	inspectionsPerSecond = 5
	inspectionsAtOnce    = 20
	maxInspectors        = 1024
)

// inspections limits the requests of clients for the state of a server. Administrators and servers have no
// limit. The zero value is ready for use.
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
			i.clients = map[string]*rate.Limiter{} // once, clients then have the allowance of new ones
		}
		l = rate.NewLimiter(inspectionsPerSecond, inspectionsAtOnce)
		i.clients[name] = l
	}
	return l
}
