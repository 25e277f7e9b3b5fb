package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// units is the number of files of the compiled program.
const units = 8

// compileWorker builds a program in a directory and runs it.
type compileWorker struct {
	dir   string
	tally *tally
}

// run builds programs until ctx ends, each time a different one.
func (w *compileWorker) run(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		out, err := w.build(ctx, n)
		if ctx.Err() != nil {
			return
		}
		w.tally.mu.Lock()
		switch want := fmt.Sprintln(n * units); {
		case err == nil && out == want:
			w.tally.builds++
			w.tally.mu.Unlock()
		case err != nil && excused(out):
			w.tally.broken++
			w.tally.mu.Unlock()
		default:
			w.tally.mu.Unlock()
			w.tally.violation("build %d in %s: %v: printed %q, not %q", n, w.dir, err, out, want)
		}
	}
}

// excused reports whether a compiler failed because of a permitted error of a soft mount.
func excused(out string) bool {
	for _, text := range []string{"Input/output error", "input/output error", "Connection timed out", "connection timed out", "No space left", "no space left"} {
		if strings.Contains(out, text) {
			return true
		}
	}
	return false
}

// build writes, compiles, links and runs a program that prints its number, and returns the whole output.
func (w *compileWorker) build(ctx context.Context, number int) (string, error) {
	dir := filepath.Join(w.dir, fmt.Sprintf("build%d", number%2))
	_ = os.RemoveAll(dir) // remaining files cause an error below
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error(), err
	}
	var main, sum strings.Builder
	var sources []string
	for u := range units {
		name := fmt.Sprintf("unit%d.c", u)
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "int unit%d(void) { return %d; }\n", u, number), 0o644); err != nil {
			return err.Error(), err
		}
		fmt.Fprintf(&main, "int unit%d(void);\n", u)
		fmt.Fprintf(&sum, " + unit%d()", u)
		sources = append(sources, name)
	}
	fmt.Fprintf(&main, "#include <stdio.h>\nint main(void) { printf(\"%%d\\n\", 0%s); return 0; }\n", sum.String())
	if err := os.WriteFile(filepath.Join(dir, "main.c"), []byte(main.String()), 0o644); err != nil {
		return err.Error(), err
	}
	if out, err := w.command(ctx, dir, "cc", append([]string{"-pipe", "-c", "main.c"}, sources...)...); err != nil {
		return out, err
	}
	objects := []string{"main.o"}
	for u := range units {
		objects = append(objects, fmt.Sprintf("unit%d.o", u))
	}
	if out, err := w.command(ctx, dir, "cc", append([]string{"-o", "program"}, objects...)...); err != nil {
		return out, err
	}
	return w.command(ctx, dir, "./program")
}

func (w *compileWorker) command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && out.Len() == 0 {
		return err.Error(), err
	}
	return out.String(), err
}
