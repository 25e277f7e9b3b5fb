package growth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// holderFiles is the number of files that one process holds open: limits of 20,000 are usual.
const holderFiles = 10_000

// opened is the answer of Hold.
const opened = "open"

// Hold opens the files with the paths in the lines of in, up to an empty line, answers with a line, and keeps
// the files open until in ends.
func Hold(in io.Reader, out io.Writer) (err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	lines := bufio.NewScanner(in)
	for lines.Scan() && lines.Text() != "" {
		f, err := os.Open(lines.Text())
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if _, err := fmt.Fprintln(out, opened); err != nil {
		return err
	}
	for lines.Scan() {
	}
	return lines.Err()
}

// holder is a process that holds files open.
type holder struct {
	command *exec.Cmd
	in      io.WriteCloser
}

// hold starts a process, and returns when it has opened the files.
func hold(ctx context.Context, program, paths []string) (_ *holder, err error) {
	h := &holder{command: exec.CommandContext(ctx, program[0], program[1:]...)}
	h.command.Stderr = os.Stderr
	h.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := h.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.in, err = h.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := h.command.Start(); err != nil {
		return nil, err
	}
	if _, err = io.WriteString(h.in, strings.Join(paths, "\n")+"\n\n"); err == nil {
		var line string
		if line, err = bufio.NewReader(out).ReadString('\n'); err == nil && strings.TrimSpace(line) != opened {
			err = fmt.Errorf("a process that holds files said %q", line)
		}
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// close ends the process.
func (h *holder) close() error { return errors.Join(h.in.Close(), h.command.Wait()) }
