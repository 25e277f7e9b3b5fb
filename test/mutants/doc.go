// Package mutants shows that the tests see: each patch here breaks a line or a few of a protocol, and a test
// must fail on the patched code. It is one of internal/sim, which fails within a number of seeds, or a
// directed test of another package.
//
// A patch is NAME.patch: first the fault, the line of the paper or the invariant that the fault breaks,
// and the test that finds it, in a line like one of
//
//	Found by: TestPrimCastCuts within 100 seeds.
//	Found by: TestScrub in internal/block/region.
//
// then a unified diff with a line of context, so that changes nearby do not matter. To find by chance takes a
// few times fewer seeds than named: the same bug must be found again when other code draws random
// numbers in another order.
//
//	make mutants                                                # all of them: minutes
//	go test ./test/mutants -v -run Found/turn -mutants          # one
//	go test ./test/mutants                                      # only: do they apply and compile?
//
// The tree is not touched, and code that ships has no hooks: copies of the patched files take the place of
// the originals in a build (go build -overlay).
package mutants
