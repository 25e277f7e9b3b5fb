// Package mutants shows that the simulator sees: each patch here breaks a line or a few of a protocol, and a test of
// internal/sim must fail on the patched code within a number of seeds.
//
// A patch is NAME.patch: first what is broken, which line of the paper or invariant that breaks,
// and what finds it, in a line
//
//	Found by: TestPrimCastCuts within 100 seeds.
//
// then a unified diff with a line of context, so that changes nearby do not matter. To find by chance takes a few
// times fewer seeds than named: the same bug must be found again when other code draws random
// numbers in another order.
//
//	make mutants                                                # all of them: minutes
//	go test ./test/mutants -v -run Found/turn -mutants          # one
//	go test ./test/mutants                                      # only: do they apply and compile?
//
// The tree is not touched, and code that ships has no hooks: copies of the patched files take the place of the
// originals in a build (go build -overlay).
package mutants
