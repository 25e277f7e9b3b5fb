// Package invariant states conditions that must hold. A broken invariant panics with its evidence: it stops
// the replica that found it, which is always better than corrupting its state. Bad input from outside is
// never an invariant.
package invariant

import "fmt"

// Violation is the value of the panic. Drivers recover it, log it and stop the
// replica.
type Violation struct{ Evidence string }

func (v Violation) Error() string { return "invariant broken: " + v.Evidence }

// Check panics with a Violation if cond is false. It is always on.
func Check(cond bool, format string, args ...any) {
	if !cond {
		Broken(format, args...)
	}
}

// Broken panics with a Violation. It is for code that has found an invariant broken, and for checks that are
// made so often that their arguments are to be evaluated only then.
func Broken(format string, args ...any) {
	panic(Violation{fmt.Sprintf(format, args...)})
}
