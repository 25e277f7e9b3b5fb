// Package pause waits for a time to pass, and stops when a context ends. Use it in place of a select of a
// timer and ctx.Done.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. It returns the error of ctx if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Between waits for a random time from least to most, which keeps processes that were started together from
// acting together. least must not exceed most. It returns the error of ctx if ctx ends first.
func Between(ctx context.Context, least, most time.Duration) error {
	return For(ctx, least+rand.N(most-least+1))
}
