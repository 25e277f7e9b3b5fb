package arch

import (
	"cmp"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxRelatives is the maximum number of relatives in 1,000 words.
const maxRelatives = 4.0

// minWords is the minimum number of words of comments for a rate.
const minWords = 200

// maxPlaces is the maximum number of places in the message of a failure.
const maxPlaces = 10

// plainPages are patterns of the pages in the plain register (CONTRIBUTING.md), relative to the module.
var plainPages = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "bench/results/README.md", "docs/*.md", "docs/*/*.md"}

// relatives are pronouns that stand for a noun that the sentence should name.
var relatives = regexp.MustCompile(`(?i)\b(what|who|whose|whom|whatever|whoever)\b`)

// prose has the numbers of words and the places of relatives in a page or in the comments of a package.
type prose struct {
	words  int
	places []string // file:line
}

// add counts a text that begins at a line of a file.
func (p *prose) add(file string, line int, text string) {
	for i, s := range strings.Split(text, "\n") {
		p.words += len(strings.Fields(s))
		for range relatives.FindAllString(s, -1) {
			p.places = append(p.places, file+":"+strconv.Itoa(line+i))
		}
	}
}

// check fails if the prose has too many relatives.
func (p *prose) check(t *testing.T, name string) {
	t.Helper()
	per := 1000 * float64(len(p.places)) / float64(max(p.words, 1))
	assert.LessOrEqual(t, per, maxRelatives, "%s: %.1f of what, who, whose in 1,000 words: name the thing by a noun: %s",
		name, per, strings.Join(p.places[:min(len(p.places), maxPlaces)], " "))
}

// TestPlainLanguage: pages and comments name things by nouns.
func TestPlainLanguage(t *testing.T) {
	for _, pattern := range plainPages {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, path := range found {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			name, page := strings.TrimPrefix(filepath.ToSlash(path), "../../"), &prose{}
			page.add(name, 1, string(text))
			page.check(t, name)
		}
	}
	comments := commentsOfPackages(t)
	for _, dir := range slices.Sorted(maps.Keys(comments)) {
		comments[dir].check(t, "comments of "+dir)
	}
}

// citations name files and issues outside of the repository.
var citations = regexp.MustCompile(`\b(DESIGN|STYLE|FIELD)\b( section)? \d|/work/|\.\./shared/|\b[Ii]ssue \d`)

// TestNoOutsideCitations: a reader has the repository only. Comments and pages cite docs/design, a package,
// or a publication.
func TestNoOutsideCitations(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range slices.Concat(p.files, p.testFiles) {
			for _, group := range f.Comments {
				for _, c := range group.List {
					assert.NotRegexp(t, citations, c.Text, p.at(c))
				}
			}
		}
	}
	for _, pattern := range plainPages {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		for _, path := range found {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.NotRegexp(t, citations, string(text), path)
		}
	}
}

// maxColumns is the maximum width of a line of comments.
const maxColumns = 110

// columns returns the width of a line, with a tab stop at each fourth column.
func columns(line string) (n int) {
	for _, r := range line {
		n++
		for r == '\t' && n%4 != 0 {
			n++
		}
	}
	return n
}

// wide are lines of comments that may be wider: directives and rows of tables.
var wide = regexp.MustCompile(`^\t*//(go:|.*\S(  | \| ))`)

// TestCommentColumns: comments fit beside other windows.
func TestCommentColumns(t *testing.T) {
	require.NoError(t, filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, "\t"), "//") && !wide.MatchString(line) {
				assert.LessOrEqual(t, columns(line), maxColumns, "%s:%d", strings.TrimPrefix(path, "../../"), i+1)
			}
		}
		return err
	}))
}

// commentsOfPackages returns the comments by directory. A package with fewer than minWords is joined with the
// nearest package above it, or else with all other such packages under the directory ".".
func commentsOfPackages(t *testing.T) map[string]*prose {
	all := map[string]*prose{".": {}}
	for _, p := range packages(t) {
		ignored, err := p.parse(p.IgnoredGoFiles)
		require.NoError(t, err)
		all[p.rel] = &prose{}
		for _, f := range slices.Concat(p.files, p.testFiles, ignored) {
			all[p.rel].addComments(p, f)
		}
	}
	deepestFirst := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(b, a)) // "." is the last
	})
	for _, dir := range deepestFirst {
		small := all[dir]
		if small.words >= minWords || dir == "." {
			continue
		}
		delete(all, dir)
		above := filepath.Dir(dir)
		for all[above] == nil {
			above = filepath.Dir(above)
		}
		all[above].words += small.words
		all[above].places = append(all[above].places, small.places...)
	}
	return all
}

// addComments counts the comments of a file of a package.
func (p *prose) addComments(of *pkg, f *ast.File) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			pos := of.fset.Position(c.Pos())
			p.add(filepath.Join(of.rel, filepath.Base(pos.Filename)), pos.Line, strings.TrimLeft(c.Text, "/*"))
		}
	}
}
