package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/globalfs/globalfs"

// pkg is one package of this module, as `go list` describes it, with its sources.
type pkg struct {
	ImportPath     string
	Name           string
	Dir            string
	Doc            string
	GoFiles        []string
	TestGoFiles    []string
	XTestGoFiles   []string
	IgnoredGoFiles []string // for other platforms or build tags
	Imports        []string // of GoFiles
	TestImports    []string
	XTestImports   []string
	Error          *struct{ Err string }

	rel       string // path within the module
	fset      *token.FileSet
	files     []*ast.File // written by hand, without tests
	testFiles []*ast.File
}

var loadOnce = sync.OnceValues(loadModule)

// packages returns all packages of the module, parsed once for all tests.
func packages(t *testing.T) []*pkg {
	t.Helper()
	all, err := loadOnce()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func loadModule() ([]*pkg, error) {
	out, err := goCommand("list", "-e", "-json", modulePath+"/...")
	if err != nil {
		return nil, err
	}
	var all []*pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{fset: token.NewFileSet()}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		p.rel = strings.TrimPrefix(p.ImportPath, modulePath+"/")
		if p.files, err = p.parse(p.GoFiles); err != nil {
			return nil, err
		}
		if p.testFiles, err = p.parse(append(p.TestGoFiles, p.XTestGoFiles...)); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// goCommand runs go for the platform of the release, independently of this machine's.
func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New("go " + strings.Join(args, " ") + ": " + string(exit.Stderr))
	}
	return out, err
}

func (p *pkg) parse(names []string) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(p.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if !ast.IsGenerated(f) {
			files = append(files, f)
		}
	}
	return files, nil
}

// at returns the place of a node as file:line, with the file's path within the module.
func (p *pkg) at(n ast.Node) string {
	pos := p.fset.Position(n.Pos())
	return filepath.Join(p.rel, filepath.Base(pos.Filename)) + ":" + strconv.Itoa(pos.Line)
}

// inModule returns the path within this module of an import path.
func inModule(path string) (rel string, ok bool) { return strings.CutPrefix(path, modulePath+"/") }
