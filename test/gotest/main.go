// Command gotest runs `go test` with its arguments and prints its usual output, and also every test that was
// skipped, with the reason. The skipped tests are added to the file that the variable SKIPS names. With
// -report as the only argument it prints that file; with SKIPPED=fail in the environment it fails if there
// are any.
//
// A skip with a reason that begins with "by design:" is not reported: another target runs the test.
//
// With REPEAT=1 in the environment, as in CI, the tests that failed run once more, and whole packages that a
// panic or a timeout ended. The process tests run clusters in real time on a shared machine. What fails first
// and passes then is printed as FLAKY: file an issue for the test. A data race and code that does not compile
// are not repeated.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	path := cmp.Or(os.Getenv("SKIPS"), "bin/skipped")
	var err error
	if slices.Equal(os.Args[1:], []string{"-report"}) {
		err = reportFile(os.Stdout, path, os.Getenv("SKIPPED") == "fail")
	} else {
		err = run(path, os.Args[1:])
	}
	if err != nil {
		printOwn(os.Stderr, err)
		os.Exit(1)
	}
}

// printOwn prints the errors of this program, each in one line. go test has printed the reason of its own
// failure.
func printOwn(out io.Writer, err error) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, e := range joined.Unwrap() {
			printOwn(out, e)
		}
		return
	}
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
		fmt.Fprintln(out, "gotest:", err)
	}
}

// run runs go test, once more for what failed if REPEAT=1, and appends the skipped tests to the file
// at path.
func run(path string, args []string) error {
	p, err := once(args)
	skips := p.skips
	var failed *exec.ExitError
	if errors.As(err, &failed) && os.Getenv("REPEAT") == "1" && p.repeatable() {
		repeat := p.repeatArgs(args)
		fmt.Printf("\nREPEAT go test %s\n", strings.Join(repeat, " "))
		again, second := once(repeat)
		skips = append(skips, again.skips...)
		if err = second; err == nil {
			fmt.Printf("FLAKY: passed the second time only: %s %s\n\n", strings.Join(p.failed, " "), strings.Join(p.broken, " "))
		}
	}
	slices.Sort(skips)
	return errors.Join(err, appendSkips(path, slices.Compact(skips)))
}

func once(args []string) (*printer, error) {
	p := newPrinter(os.Stdout)
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	if err := cmd.Start(); err != nil {
		return p, err
	}
	read := p.readAll(events)
	if read != nil {
		_, _ = io.Copy(io.Discard, events) // go test must be able to end
	}
	ended := cmd.Wait()
	p.finish()
	return p, errors.Join(read, ended)
}

// onlyPackages replaces the packages among the arguments of go test, which are those that begin with "./" or
// with the module's path.
func onlyPackages(args, packages []string) []string {
	isPackage := func(arg string) bool { return strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, module) }
	at := slices.IndexFunc(args, isPackage)
	if at < 0 {
		return args
	}
	rest := slices.DeleteFunc(slices.Clone(args[at:]), isPackage)
	return slices.Concat(args[:at], packages, rest)
}

func appendSkips(path string, skips []string) error {
	if len(skips) == 0 {
		return nil
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		if err := os.MkdirAll(path[:i], 0o755); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, strings.Join(skips, "\n")+"\n")
	return errors.Join(err, f.Close())
}

// reportFile prints the skipped tests that a file lists. With fail such tests are an error.
func reportFile(out io.Writer, path string, fail bool) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = nil, nil
	}
	if err != nil {
		return err
	}
	skips := strings.Split(strings.TrimSpace(string(data)), "\n")
	if skips[0] == "" {
		_, err = fmt.Fprintln(out, "no test was skipped")
		return err
	}
	fmt.Fprintf(out, "\n%d tests were SKIPPED, so this run proves nothing about their subjects:\n", len(skips))
	for _, s := range skips {
		fmt.Fprintln(out, "  "+s)
	}
	if fail {
		return errors.New("SKIPPED=fail: skipped tests are failures here. 'make deps' installs missing tools; FUSE and namespaces need root")
	}
	return nil
}
