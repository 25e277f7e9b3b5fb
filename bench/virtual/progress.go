package virtual

import "context"

// Progress is called with the next measurement; it may be nil.
type Progress func(what string)

// Say names the next measurement.
func (p Progress) Say(what string) {
	if p != nil {
		p(what)
	}
}

// OrEnded returns err, or the error of a context that has ended.
func OrEnded(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return ctx.Err()
}
