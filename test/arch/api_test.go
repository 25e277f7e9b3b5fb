package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Public packages must be usable by other modules, which cannot name a type of an internal package.
func TestPublicPackagesShowNoInternalType(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.rel, "pkg/") {
			continue
		}
		for _, f := range p.files {
			internal := internalNames(f)
			for _, d := range f.Decls {
				for _, shown := range public(d) {
					ast.Inspect(shown, func(n ast.Node) bool {
						if s, ok := n.(*ast.SelectorExpr); ok {
							x, ok := s.X.(*ast.Ident)
							assert.False(t, ok && internal[x.Name], "%s: shows a type of an internal package", p.at(n))
						}
						return true
					})
				}
			}
		}
	}
}

func internalNames(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range f.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && strings.Contains("/"+path+"/", "/internal/") {
			names[importName(f, path)] = true
		}
	}
	return names
}

// public returns the parts of a declaration that are visible to users of the package.
func public(d ast.Decl) (parts []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			parts = append(parts, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					parts = append(parts, publicType(spec.Type)...)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && spec.Type != nil {
					parts = append(parts, spec.Type)
				}
			}
		}
	}
	return parts
}

func publicType(t ast.Expr) (parts []ast.Node) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 || field.Names[0].IsExported() {
			parts = append(parts, field.Type)
		}
	}
	return parts
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// Programs are assembled explicitly: no package registers itself.
func TestNothingRegistersItself(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.files {
			for _, spec := range f.Imports {
				blank := spec.Name != nil && spec.Name.Name == "_" && spec.Path.Value != `"embed"`
				assert.False(t, blank, "%s: blank import of %s", p.at(spec), spec.Path.Value)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				assert.False(t, ok && fn.Recv == nil && fn.Name.Name == "init", "%s: func init", p.at(d))
			}
		}
	}
}

// Any code could change an exported variable. Exceptions are errors for comparisons, and values that Go
// cannot express as constants.
func TestNoExportedVariables(t *testing.T) {
	constant := map[string]bool{"internal/block.LastID": true} // an array
	for _, p := range packages(t) {
		if floor, _ := floorOf(p.rel); floor == support {
			continue
		}
		for _, f := range p.files {
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.VAR {
					continue
				}
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						fine := strings.HasPrefix(name.Name, "Err") || constant[p.rel+"."+name.Name]
						assert.False(t, name.IsExported() && !fine,
							"%s: exported variable %s: make it a constant or a function", p.at(name), name.Name)
					}
				}
			}
		}
	}
}
