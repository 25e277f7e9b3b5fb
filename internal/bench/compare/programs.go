package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// archive has the properties of the archive.
type archive struct {
	directories []string // relative
}

// programs is the state of the measures that run programs, in one directory.
type programs struct {
	unpacked   bool // the archive is there
	configured bool // the sources are there, and configured
}

func (s *site) unpackedDir() string { return filepath.Join(s.dir, "untar") }

func (s *site) sourcesDir() string { return filepath.Join(s.dir, "sources") }

// listArchive reads the names of the directories in the archive: those that the barrier syncs.
func listArchive(s *site) error {
	if s.archive.directories == nil {
		out, err := s.output("tar", "-tf", s.cfg.Tar)
		if err != nil {
			return err
		}
		s.archive.directories = directoriesOf(strings.Fields(out))
	}
	return os.Mkdir(s.unpackedDir(), 0o755)
}

// directoriesOf returns the directories of a list of names, in which directories end in a slash.
func directoriesOf(names []string) []string {
	seen := map[string]bool{".": true}
	directories := []string{"."}
	for _, name := range names {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "/") {
			dir = path.Clean(name)
		}
		for ; !seen[dir] && dir != "/"; dir = path.Dir(dir) {
			seen[dir] = true
			directories = append(directories, dir)
		}
	}
	return directories
}

func untar(s *site, _ *worker, _ int) error {
	s.programs.unpacked = true
	return s.run(s.unpackedDir(), "tar", "-xf", s.cfg.Tar)
}

func needUnpacked(s *site) error {
	if s.programs.unpacked {
		return nil
	}
	if err := listArchive(s); err != nil {
		return err
	}
	return untar(s, nil, 0)
}

func unpackedDirectories(s *site) ([]string, error) {
	return below(s.unpackedDir(), s.archive.directories), nil
}

func ownDirectory(s *site) ([]string, error) { return []string{s.dir}, nil }

func removeUnpacked(s *site, _ *worker, _ int) error {
	s.programs.unpacked = false
	return s.run(s.dir, "rm", "-rf", s.unpackedDir())
}

func copySources(s *site) error {
	return s.run(s.dir, "cp", "-a", s.cfg.Sources, s.sourcesDir())
}

func configure(s *site, _ *worker, _ int) error {
	s.programs.configured = true
	return s.run(s.sourcesDir(), "./configure")
}

func needConfigured(s *site) error {
	if s.programs.configured {
		return nil
	}
	if err := copySources(s); err != nil {
		return err
	}
	return configure(s, nil, 0)
}

func makeAll(s *site, _ *worker, _ int) error { return s.run(s.sourcesDir(), "make") }

// sourceDirectories lists the directories of the given sources, which the copy has, too.
func sourceDirectories(s *site) ([]string, error) {
	var relative []string
	err := filepath.WalkDir(s.cfg.Sources, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name, err = filepath.Rel(s.cfg.Sources, name)
		relative = append(relative, name)
		return err
	})
	return below(s.sourcesDir(), relative), err
}

func below(dir string, relative []string) (all []string) {
	for _, name := range relative {
		all = append(all, filepath.Join(dir, name))
	}
	return all
}

// run runs a program to its end, or kills it and its children when the context ends.
func (s *site) run(dir, program string, args ...string) error {
	var output bytes.Buffer
	cmd := s.command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	return s.ended(cmd.Run(), cmd, &output)
}

// output is like run, and returns the program's standard output.
func (s *site) output(program string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := s.command(program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := s.ended(cmd.Run(), cmd, &stderr)
	return stdout.String(), err
}

func (s *site) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // for children that left the process group
	return cmd
}

// ended adds to the error of a program the end of its output.
func (s *site) ended(err error, cmd *exec.Cmd, output *bytes.Buffer) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: install it", err)
	}
	text := output.Bytes()
	return fmt.Errorf("%s: %w; the end of its output:\n%s", strings.Join(cmd.Args, " "), err, text[max(0, len(text)-2000):])
}
