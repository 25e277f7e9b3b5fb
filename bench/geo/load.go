package geo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
)

// Load is the work of a process for one measurement. The process writes that it is prepared, begins at the
// next line of its input, and then writes its measurement.
type Load struct {
	Dir       string
	Operation string // one of bench.Operations
	Prefix    string // of the names of files
	Clients   int
	Duration  time.Duration
}

// prepared is the line that a loader writes before it waits for its turn.
const prepared = "prepared"

// Serve does the work in this process.
func (l *Load) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	load := bench.Load{Operation: l.Operation, Clients: l.Clients, Duration: l.Duration, Prefix: l.Prefix, Begin: func() error {
		if _, err := fmt.Fprintln(out, prepared); err != nil {
			return err
		}
		_, err := bufio.NewReader(in).ReadString('\n')
		return err
	}}
	sample, err := load.Run(ctx, bench.Directory(l.Dir))
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(sample)
}

// run does the work in another process. It calls begin when that process is prepared, and end after its
// measurement.
func (l *Load) run(ctx context.Context, loader []string, begin, end func() error) (sample bench.Sample, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := append(slices.Clone(loader[1:]), "--operation", l.Operation, "--prefix", l.Prefix,
		"--clients", fmt.Sprint(l.Clients), "--duration", l.Duration.String(), l.Dir)
	cmd := exec.CommandContext(ctx, loader[0], args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return sample, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return sample, err
	}
	if err := cmd.Start(); err != nil {
		return sample, err
	}
	err = l.converse(in, bufio.NewReader(out), begin, end, &sample)
	if err != nil {
		cancel() // otherwise the process might wait for this one
	}
	if err = errors.Join(err, cmd.Wait()); err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return sample, err
}

func (l *Load) converse(in io.Writer, out *bufio.Reader, begin, end func() error, into *bench.Sample) error {
	line, err := out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != prepared {
		return fmt.Errorf("the load was not prepared, it said %q: %w", line, err)
	}
	if err := begin(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(in); err != nil {
		return err
	}
	if err := json.NewDecoder(out).Decode(into); err != nil {
		return fmt.Errorf("what the load has measured: %w", err)
	}
	return end()
}
