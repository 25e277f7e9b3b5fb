package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// events are of a run with a pass, a failure, a skip, a deliberate skip, and a test that a panic ended.
const events = `
{"Action":"build-output","ImportPath":"x","Output":"x.go:1: warning\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Test":"TestPass","Output":"=== RUN   TestPass\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Test":"TestPass","Output":"    a_test.go:3: quiet\n"}
{"Action":"pass","Package":"github.com/globalfs/globalfs/test/a","Test":"TestPass"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Test":"TestSkip","Output":"    a_test.go:9: a log\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Test":"TestSkip","Output":"    a_test.go:10: no etcd\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"github.com/globalfs/globalfs/test/a","Test":"TestSkip"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Test":"TestMinutes","Output":"    a_test.go:10: by design: make mutants\n"}
{"Action":"skip","Package":"github.com/globalfs/globalfs/test/a","Test":"TestMinutes"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Output":"PASS\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/a","Output":"ok  \ttest/a\t0.1s\n"}
{"Action":"pass","Package":"github.com/globalfs/globalfs/test/a"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/b","Test":"TestFail","Output":"=== RUN   TestFail\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/b","Test":"TestFail","Output":"--- FAIL: TestFail\n"}
{"Action":"fail","Package":"github.com/globalfs/globalfs/test/b","Test":"TestFail"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/b","Test":"TestHang","Output":"panic: test timed out\n"}
{"Action":"output","Package":"github.com/globalfs/globalfs/test/b","Output":"FAIL\ttest/b\n"}
{"Action":"fail","Package":"github.com/globalfs/globalfs/test/b"}
`

func TestPrinter(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out)
	require.NoError(t, p.readAll(strings.NewReader(events)))
	p.finish()
	require.Equal(t, `x.go:1: warning
SKIPPED test/a TestSkip: no etcd
ok  	test/a	0.1s
--- FAIL: TestFail
panic: test timed out
FAIL	test/b
`, out.String())
	require.Equal(t, []string{"test/a TestSkip: no etcd"}, p.skips)
	require.Equal(t, []string{module + "test/b"}, p.failed)
	require.True(t, p.repeatable())
	require.ErrorContains(t, newPrinter(&out).readAll(strings.NewReader("{")), "go test -json")
}

func TestRepeatable(t *testing.T) {
	end := `{"Action":"fail","Package":"github.com/globalfs/globalfs/test/b"}`
	for what, events := range map[string]string{
		"nothing failed": `{"Action":"pass","Package":"github.com/globalfs/globalfs/test/b"}`,
		"a data race":    `{"Action":"output","Package":"github.com/globalfs/globalfs/test/b","Output":"WARNING: DATA RACE\n"}` + end,
		"does not build": `{"Action":"fail","Package":"github.com/globalfs/globalfs/test/b","FailedBuild":"x"}`,
	} {
		p := newPrinter(&bytes.Buffer{})
		require.NoError(t, p.readAll(strings.NewReader(events)))
		require.False(t, p.repeatable(), what)
	}
	b := module + "test/b"
	require.Equal(t, []string{"-race", "-timeout", "5m", b, "-run", "X"},
		onlyPackages([]string{"-race", "-timeout", "5m", "./a", module + "c", "-run", "X"}, []string{b}))
	require.Equal(t, []string{"-v"}, onlyPackages([]string{"-v"}, []string{b}), "the package of the directory")
}

// Only the failed tests run again, unless a panic hides those that did not run.
func TestRepeatsFailedTests(t *testing.T) {
	const pkg = `"Package":"github.com/globalfs/globalfs/test/b"`
	broken := `{"Action":"fail",` + pkg + `,"Test":"TestA/one"}{"Action":"fail",` + pkg + `,"Test":"TestA"}{"Action":"fail",` + pkg + `,"Test":"TestB"}`
	verdict := `{"Action":"output",` + pkg + `,"Output":"FAIL\n"}`
	end := `{"Action":"output",` + pkg + `,"Output":"FAIL\ttest/b\t0.1s\n"}{"Action":"fail",` + pkg + `}`
	b := module + "test/b"
	for _, c := range []struct {
		events     string
		args, want []string
	}{
		{broken + verdict + end, []string{"-race", "./..."}, []string{"-run", "^(TestA|TestB)$", "-race", b}},
		{broken + end, []string{"-race", "./..."}, []string{"-race", b}},
		{broken + verdict + end, []string{"./...", "-run", "X"}, []string{b, "-run", "X"}},
	} {
		p := newPrinter(&bytes.Buffer{})
		require.NoError(t, p.readAll(strings.NewReader(c.events)))
		require.Equal(t, c.want, p.repeatArgs(c.args))
	}
}

// An error of gotest is printed also if go test has failed, which prints its reason itself.
func TestErrorsBesideGoTest(t *testing.T) {
	failed := &exec.ExitError{}
	var out bytes.Buffer
	printOwn(&out, errors.Join(errors.Join(io.ErrUnexpectedEOF, failed), fs.ErrPermission))
	require.Equal(t, "gotest: unexpected EOF\ngotest: permission denied\n", out.String())
	out.Reset()
	printOwn(&out, fmt.Errorf("wrapped: %w", failed))
	require.Empty(t, out.String())
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "skipped")
	var out bytes.Buffer
	require.NoError(t, reportFile(&out, path, true))
	require.Equal(t, "no test was skipped\n", out.String())
	require.NoError(t, appendSkips(path, nil))
	require.NoError(t, appendSkips(path, []string{"a A: no etcd", "b B: no fsx"}))
	require.NoError(t, appendSkips(path, []string{"c C: not root"}))
	out.Reset()
	require.NoError(t, reportFile(&out, path, false))
	require.Contains(t, out.String(), "3 tests were SKIPPED")
	require.Contains(t, out.String(), "  b B: no fsx\n")
	require.ErrorContains(t, reportFile(&out, path, true), "make deps")
}
