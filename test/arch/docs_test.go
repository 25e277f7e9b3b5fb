package arch

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command "
		}
		assert.True(t, strings.HasPrefix(p.Doc, want), "%s: the package comment should begin with %q", p.rel, want)
	}
}

// plain are methods that need no comment beside their names.
var plain = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.files {
			for _, d := range f.Decls {
				for _, name := range undocumented(d) {
					assert.Fail(t, "no comment", "%s: %s", p.at(name), name.Name)
				}
			}
		}
	}
}

// undocumented returns the exported names that a declaration introduces without a comment on them or on their
// group.
func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		method := d.Recv != nil
		visible := d.Name.IsExported() && (!method || ast.IsExported(receiver(d)))
		if visible && d.Doc == nil && !(method && plain[d.Name.Name]) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Names[0])
				}
			}
		}
	}
	return names
}
