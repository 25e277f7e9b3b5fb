package arch

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The limits of a type. Above them, the responsibilities of a type are hard to distinguish.
const (
	maxMethods = 60
	maxFields  = 25
)

// large is an exception: the maximum numbers of methods and fields of a type, 0 for the normal limit, and the
// reason.
type large struct {
	methods, fields int
	reason          string
}

// largeTypes are the exceptions. Their numbers may only decrease.
var largeTypes = map[string]large{
	"internal/meta.Command": {0, 27, "the parameters of all operations in one wire format; kinds name theirs"},
	"internal/meta.Machine": {171, 0, "one method for each operation, and its parts, over one transaction; files " +
		"separate the families of operations"},
	"internal/mount.fileSystem": {79, 0, "go-fuse's RawFileSystem prescribes a method for each FUSE operation"},
}

// TestTypesAreSmall: the methods and fields of each type in hand-written code, without tests, are limited. An
// embedded type counts as one field. Its methods do not count for the embedding type.
func TestTypesAreSmall(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	for _, p := range packages(t) {
		if floor, _ := floorOf(p.rel); floor == support {
			continue
		}
		for _, f := range p.files {
			countMethods(p, f, methods)
			countFields(p, f, fields)
		}
	}
	for name, n := range methods {
		checkLimit(t, name, "methods", n, maxMethods, largeTypes[name].methods)
	}
	for name, n := range fields {
		checkLimit(t, name, "fields", n, maxFields, largeTypes[name].fields)
	}
	for name, x := range largeTypes {
		assert.NotEmpty(t, x.reason, name)
		assert.Positive(t, methods[name]+fields[name], "%s: there is no such type, take it from largeTypes", name)
	}
}

func checkLimit(t *testing.T, name, what string, n, limit, exception int) {
	assert.LessOrEqual(t, n, max(limit, exception), "%s has %d %s: separate its responsibilities", name, n, what)
	if exception > 0 {
		assert.Greater(t, n, limit, "%s has %d %s: take the exception from largeTypes", name, n, what)
	}
}

func countMethods(p *pkg, f *ast.File, found map[string]int) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
			found[p.rel+"."+receiver(d)]++
		}
	}
}

func countFields(p *pkg, f *ast.File, found map[string]int) {
	ast.Inspect(f, func(n ast.Node) bool {
		if n, ok := n.(*ast.TypeSpec); ok {
			if x, ok := n.Type.(*ast.StructType); ok {
				found[p.rel+"."+n.Name.Name] = x.Fields.NumFields()
			}
		}
		return true
	})
}
