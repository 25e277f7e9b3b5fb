package cross

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

// walls names the parts of Commands, and the files that use the fields of a part.
var walls = map[string][]string{
	"timer": {"timer.go"}, "table": {"table.go"}, "vector": {"vector.go"}, "relays": {"relay.go"}, "reach": {"reach.go"},
	"requests": {"requests.go"}, "queue": {"queue.go"}, "tombstones": {"tombstones.go"}, "earlyBallots": {"early.go"},
	"gate": {"seal.go"}, "pursuit": {"pursue.go", "receive.go"}, "posting": {"posts.go"},
}

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
	pkg, err := cfg.Check("cross", fset, files, info)
	require.NoError(t, err)

	owners := map[types.Object][]string{} // of fields
	for name, files := range walls {
		fields := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		for i := range fields.NumFields() {
			owners[fields.Field(i)] = files
		}
	}
	require.NotEmpty(t, owners)
	for x, s := range info.Selections {
		if files, walled := owners[s.Obj()]; walled {
			at := fset.Position(x.Pos())
			require.Contains(t, files, at.Filename, "%v: field %s belongs to %s, use a method", at, s.Obj().Name(), files)
		}
	}
}
