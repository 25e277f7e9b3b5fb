package primcast

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walls names the types with a narrow view: only their own file uses their fields.
var walls = map[string]string{"oracle": "oracle.go", "journal": "journal.go", "seating": "roster.go", "sequence": "sequence.go"}

// TestWalls: other files use the methods of the types in walls, and not their fields.
func TestWalls(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	cfg := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := cfg.Check("primcast", fset, files, info)
	require.NoError(t, err)

	owner := map[types.Object]string{} // of fields
	for name, file := range walls {
		fields := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		for i := range fields.NumFields() {
			owner[fields.Field(i)] = file
		}
	}
	require.NotEmpty(t, owner)
	for x, s := range info.Selections {
		if file, walled := owner[s.Obj()]; walled {
			at := fset.Position(x.Pos())
			require.Equal(t, file, at.Filename, "%v: field %s belongs to %s, use a method", at, s.Obj().Name(), file)
		}
	}
}
