package block

import (
	"context"

	"github.com/globalfs/globalfs/internal/posix"
)

// Right is the right of a client to read a block.
type Right = posix.BlockRight

type rightKey struct{}

// WithRight returns a context in which gets of a block show a right to it. Most clients need none: ctx is
// returned for the zero right.
func WithRight(ctx context.Context, right Right) context.Context {
	if right == (Right{}) {
		return ctx
	}
	return context.WithValue(ctx, rightKey{}, right)
}

// RightOf returns the right of a context; the zero right if there is none.
func RightOf(ctx context.Context) Right {
	right, _ := ctx.Value(rightKey{}).(Right)
	return right
}
