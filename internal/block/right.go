package block

import (
	"context"

	"github.com/globalfs/globalfs/internal/posix"
)

// Right is the right of a client to read a block.
type Right = posix.BlockRight

type rightKey struct{}

// WithRight returns a context that carries a right: gets of a block with it show the right. For the zero
// right it returns ctx.
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
