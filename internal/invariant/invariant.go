// Package invariant states what must hold. A broken invariant panics with its
// evidence: it stops the replica that found it, which is always better than
// corrupting its state. Bad input from outside is never an invariant.
package invariant

import "fmt"

// Broken is the value of the panic. Drivers recover it, log it and stop the
// replica.
type Broken struct{ Evidence string }

func (b Broken) Error() string { return "invariant broken: " + b.Evidence }

// Check panics with Broken if cond is false. It is always on.
func Check(cond bool, format string, args ...any) {
	if !cond {
		panic(Broken{fmt.Sprintf(format, args...)})
	}
}
