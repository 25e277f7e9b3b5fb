// Package mutants proves that the tests find faults: each patch here breaks one or a few lines of the code,
// and a test must fail on the patched code. The test is a test of internal/sim, which fails within a number
// of seeds, or a directed test of another package.
//
// A patch is a file NAME.patch. It begins with a description of the fault, the line of the paper or the
// invariant that the fault breaks, and the test that finds the fault, in a line like one of
//
//	Found by: TestPrimCastCuts within 100 seeds.
//	Found by: TestScrub in internal/block/region.
//
// A unified diff follows. It has one line of context, so that it still applies after changes nearby. The
// named number of seeds is a few times the number that usually suffices, because a test must also find the
// fault after changes of the order in which other code draws random numbers.
//
//	make mutants                                                # all of them: minutes
//	go test ./test/mutants -v -run Found/turn -mutants          # one
//	go test ./test/mutants                                      # only checks that they apply and compile
//
// The tests do not change the source tree, and the product has no hooks for them: in a build, patched copies
// replace the original files (go build -overlay).
package mutants
