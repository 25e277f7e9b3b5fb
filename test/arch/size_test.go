package arch

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
)

// sample is one measured value.
type sample struct {
	value int
	where string
}

// sizes are all samples of one kind, with the value above which a review is advisable.
type sizes struct {
	name      string
	goal      string
	lookTwice int
	all       []sample
}

func (s *sizes) add(value int, where string) { s.all = append(s.all, sample{value, where}) }

func (s *sizes) percentile(p int) int {
	if len(s.all) == 0 {
		return 0
	}
	return s.all[(len(s.all)-1)*p/100].value
}

// report has the sizes that `make lint` prints, of hand-written code without tests.
type report struct {
	files, functions, packages, methods, parameters, fields sizes

	code, test int // lines
}

// TestSizes measures and never fails: the goals are not limits. -v shows the result.
func TestSizes(t *testing.T) {
	r := report{
		files:      sizes{name: "code lines of a file", goal: "median 120, p90 350", lookTwice: 600},
		functions:  sizes{name: "lines of a function", goal: "p90 35", lookTwice: 70},
		packages:   sizes{name: "code lines of a package", goal: "median 400", lookTwice: 4000},
		methods:    sizes{name: "methods of an interface", goal: "4", lookTwice: 7},
		parameters: sizes{name: "parameters", goal: "4", lookTwice: 6},
		fields:     sizes{name: "fields of a struct", goal: "20", lookTwice: 30},
	}
	for _, p := range packages(t) {
		r.measure(t, p)
	}
	t.Logf("\n%s", r.table())
}

func (r *report) measure(t *testing.T, p *pkg) {
	lines := 0
	for _, f := range p.files {
		n := codeLines(t, p, f)
		r.files.add(n, p.at(f))
		lines += n
		r.inspect(p, f)
	}
	for _, f := range p.testFiles {
		r.test += codeLines(t, p, f)
	}
	if floor, _ := floorOf(p.rel); floor == support {
		r.test += lines
		return
	}
	r.code += lines
	r.packages.add(lines, p.rel)
}

func (r *report) inspect(p *pkg, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			where := p.at(n) + " " + n.Name.Name
			r.functions.add(p.fset.Position(n.End()).Line-p.fset.Position(n.Pos()).Line+1, where)
			r.parameters.add(n.Type.Params.NumFields(), where)
		case *ast.TypeSpec:
			where := p.at(n) + " " + n.Name.Name
			switch x := n.Type.(type) {
			case *ast.InterfaceType:
				r.methods.add(x.Methods.NumFields(), where)
			case *ast.StructType:
				r.fields.add(x.Fields.NumFields(), where)
			}
		}
		return true
	})
}

// codeLines counts the lines with code.
func codeLines(t *testing.T, p *pkg, f *ast.File) int {
	name := filepath.Join(p.Dir, filepath.Base(p.fset.Position(f.Pos()).Filename))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		first := file.Line(pos)
		for i := range 1 + bytes.Count([]byte(literal), []byte("\n")) {
			if tok != token.SEMICOLON {
				lines[first+i] = true
			}
		}
	}
}

func (r *report) table() string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "size\tmedian\tp90\tmost\tgoal\tlook twice above")
	var twice []string
	for _, s := range []*sizes{&r.files, &r.functions, &r.packages, &r.methods, &r.parameters, &r.fields} {
		slices.SortStableFunc(s.all, func(a, b sample) int { return cmp.Compare(a.value, b.value) })
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%d\n",
			s.name, s.percentile(50), s.percentile(90), s.percentile(100), s.goal, s.lookTwice)
		for _, one := range s.all {
			if one.value > s.lookTwice {
				twice = append(twice, fmt.Sprintf("%d %s: %s", one.value, s.name, one.where))
			}
		}
	}
	w.Flush()
	fmt.Fprintf(&text, "%d lines of code, %d of tests: %.2f (goal: 1.0)\n", r.code, r.test, float64(r.test)/float64(max(r.code, 1)))
	for _, one := range twice {
		fmt.Fprintln(&text, "look twice:", one)
	}
	return text.String()
}
