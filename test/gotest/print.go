package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// byDesign begins the reason of a skip that is not worth a report.
const byDesign = "by design:"

// event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	// FailedBuild is set in the end of a package that does not compile.
	FailedBuild string
}

const module = "github.com/globalfs/globalfs/"

// printer prints the output of packages and of failed tests, as `go test` without -v does, and collects
// skips.
type printer struct {
	out   io.Writer
	tests map[string]*strings.Builder // output by package and test, "" for the package itself
	order map[string][]string         // keys of tests, by package, in the order of their first output
	skips []string

	failed []string // packages
	broken []string // tests of these packages, without subtests
	cut    bool     // a package ended before all of its tests, as after a panic
	race   bool     // the race detector reported a race
	build  bool     // a package does not compile
}

func newPrinter(out io.Writer) *printer {
	return &printer{out: out, tests: map[string]*strings.Builder{}, order: map[string][]string{}}
}

func (p *printer) readAll(from io.Reader) error {
	decoder := json.NewDecoder(from)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("output of go test -json: %w", err)
		}
		p.add(e)
	}
}

func (p *printer) add(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(p.out, e.Output)
	case "output":
		p.race = p.race || strings.Contains(e.Output, "WARNING: DATA RACE")
		p.keep(e)
	case "pass", "fail", "skip":
		if e.Test != "" {
			p.endTest(e)
		} else {
			p.endPackage(e)
		}
	}
}

func key(e event) string { return e.Package + "\x00" + e.Test }

func (p *printer) keep(e event) {
	b := p.tests[key(e)]
	if b == nil {
		b = &strings.Builder{}
		p.tests[key(e)] = b
		p.order[e.Package] = append(p.order[e.Package], key(e))
	}
	b.WriteString(e.Output)
}

// framing are the lines that go test prints only with -v.
var framing = regexp.MustCompile(`(?m)^=== (RUN|PAUSE|CONT|NAME) .*\n`)

func (p *printer) take(k string) string {
	b := p.tests[k]
	if b == nil {
		return ""
	}
	delete(p.tests, k)
	return framing.ReplaceAllString(b.String(), "")
}

func (p *printer) endTest(e event) {
	text := p.take(key(e))
	switch e.Action {
	case "fail":
		fmt.Fprint(p.out, text)
		if !strings.Contains(e.Test, "/") {
			p.broken = append(p.broken, e.Test)
		}
	case "skip":
		p.skip(e, text)
	}
}

// location begins the line of a log message of a test.
var location = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

func (p *printer) skip(e event, text string) {
	reason := ""
	for line := range strings.SplitSeq(text, "\n") {
		if at := location.FindString(line); at != "" {
			reason = line[len(at):] // the last message is that of Skip
		}
	}
	if strings.HasPrefix(reason, byDesign) {
		return
	}
	s := fmt.Sprintf("%s %s: %s", strings.TrimPrefix(e.Package, module), e.Test, reason)
	p.skips = append(p.skips, s)
	fmt.Fprintln(p.out, "SKIPPED "+s)
}

// endPackage prints the package's own output: its result. Of a package that failed, it also prints the output
// of tests that did not end, as after a panic or a timeout.
func (p *printer) endPackage(e event) {
	verdict := false
	for _, k := range p.order[e.Package] {
		own := k == e.Package+"\x00"
		text := p.take(k)
		if own {
			verdict = verdictOfTests.MatchString(text)
			defer func() { fmt.Fprint(p.out, ownOutput(text, e.Action == "fail")) }()
		} else if e.Action == "fail" {
			fmt.Fprint(p.out, text)
		}
	}
	delete(p.order, e.Package)
	if e.Action == "fail" {
		p.failed = append(p.failed, e.Package)
		p.cut = p.cut || !verdict
		p.build = p.build || e.FailedBuild != ""
	}
}

// repeatable tells whether another run of the packages that failed can be of use.
func (p *printer) repeatable() bool { return len(p.failed) > 0 && !p.race && !p.build }

// verdictOfTests is the line that a package prints after all of its tests.
var verdictOfTests = regexp.MustCompile(`(?m)^FAIL$`)

// repeatArgs returns the arguments of go test for another run: of the tests that failed, or of whole packages
// if the failed tests are not known or args select tests.
func (p *printer) repeatArgs(args []string) []string {
	repeat := onlyPackages(args, p.failed)
	if p.cut || slices.Contains(args, "-run") {
		return repeat
	}
	return append([]string{"-run", "^(" + strings.Join(p.broken, "|") + ")$"}, repeat...)
}

// ownOutput returns the output of go test without -v for a package: without the line PASS of one that passed.
func ownOutput(text string, failed bool) string {
	if failed {
		return text
	}
	if strings.Contains(text, "[no test files]") || strings.Contains(text, "[no tests to run]") {
		return ""
	}
	return strings.TrimPrefix(text, "PASS\n")
}

// finish prints the remaining output of packages that never ended.
func (p *printer) finish() {
	for name := range p.order {
		p.endPackage(event{Action: "fail", Package: name})
	}
}
