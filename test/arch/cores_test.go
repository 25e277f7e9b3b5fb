package arch

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A core is a deterministic function of its inputs: it does not import packages that could make two runs
// differ. Only direct imports count: fmt itself imports os.
func TestCoresImportNothingImpure(t *testing.T) {
	impure := []string{"net", "os", "syscall", "context", "sync", "math/rand", "crypto/rand", "log", "io/ioutil", "unsafe"}
	for _, p := range cores(t) {
		for _, imported := range p.Imports {
			for _, bad := range impure {
				assert.False(t, imported == bad || strings.HasPrefix(imported, bad+"/"),
					"%s imports %s: it is a core (floors 0-%d, and those of highCores)", p.rel, imported, highestCore)
			}
		}
	}
}

func TestCoresHaveNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, p := range cores(t) {
		for _, f := range p.files {
			for _, use := range uses(f, "time") {
				assert.False(t, slices.Contains(clock, use.Sel.Name),
					"%s: time.%s in a core: the time comes with the input", p.at(use), use.Sel.Name)
			}
		}
	}
}

func TestCoresStartNoGoroutine(t *testing.T) {
	for _, p := range cores(t) {
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
					assert.Fail(t, "goroutines and channels are for drivers", "%s", p.at(n))
				}
				return true
			})
		}
	}
}

// Code that waits for a fixed time is wrong on a slow machine and slow on a fast one. Tests may sleep in fake
// time: in packages with tests that use bubbles.
func TestNobodySleeps(t *testing.T) {
	for _, p := range packages(t) {
		files := p.files
		if !slices.ContainsFunc(p.testFiles, func(f *ast.File) bool { return importName(f, bubbles) != "" }) {
			files = slices.Concat(files, p.testFiles)
		}
		for _, f := range files {
			for _, use := range uses(f, "time") {
				assert.NotEqual(t, "Sleep", use.Sel.Name, "%s: time.Sleep: wait for the event", p.at(use))
			}
		}
	}
}

// bubbles is the only package that makes bubbles of fake time: package testing/synctest alone crashes the
// race detector.
const bubbles = modulePath + "/test/bubble"

func TestBubblesAreMadeInOnePlace(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.testFiles {
			for _, use := range uses(f, "testing/synctest") {
				assert.NotEqual(t, "Test", use.Sel.Name, "%s: bubble.Test instead", p.at(use))
			}
		}
	}
}

func cores(t *testing.T) []*pkg {
	return slices.DeleteFunc(slices.Clone(packages(t)), func(p *pkg) bool {
		return !isCore(p.rel)
	})
}

// uses returns all selections from the package with an import path, by its name in f.
func uses(f *ast.File, path string) []*ast.SelectorExpr {
	name := importName(f, path)
	var found []*ast.SelectorExpr
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && name != "" && x.Name == name {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

// importName returns the name under which f imports path, or "".
func importName(f *ast.File, path string) string {
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}
