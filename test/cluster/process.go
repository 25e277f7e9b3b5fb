package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// patience is the time limit for the start and the end of a process.
const patience = 60 * time.Second

// Process is a program that can be started repeatedly. Its methods must not be called concurrently; the
// methods of different processes may.
type Process struct {
	Name string
	Log  string   // file with all its output
	Env  []string // added to the environment of the test, from the next start on

	command func(ctx context.Context) *exec.Cmd
	ready   func(ctx context.Context) error // returns when it is ready
	profile *profiler                       // nil: none is served

	mu    sync.Mutex
	now   *exec.Cmd     // GUARDED_BY mu; nil: it does not run
	ended chan struct{} // GUARDED_BY mu; closed when it has ended
	last  error         // GUARDED_BY mu; how the last run ended
}

// Start starts the process and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.AwaitReady(ctx)
}

// AwaitReady waits until the process is ready, or has ended, which is an error.
func (p *Process) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := p.ready(ctx); err != nil {
		return fmt.Errorf("%s cannot be used: %w; it said:\n%s", p.Name, err, Tail(p.Log, 2000))
	}
	return nil
}

// Launch starts the process and does not wait.
func (p *Process) Launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return fmt.Errorf("%s runs already", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	cmd := p.command(context.Background())
	cmd.Stdout, cmd.Stderr = log, log
	if len(p.Env) > 0 {
		cmd.Env = append(cmd.Environ(), p.Env...)
	}
	err = cmd.Start()
	if err = errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	p.now, p.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		err := cmd.Wait()
		p.mu.Lock()
		p.now, p.last = nil, err
		p.mu.Unlock()
		close(ended)
	}(p.ended)
	return nil
}

// Running reports whether the process runs or is paused.
func (p *Process) Running() bool { return p.PID() != 0 }

// PID returns the process id, 0 if the process does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return 0
	}
	return p.now.Process.Pid
}

// Signal sends a signal. It does nothing if the process has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		_ = p.now.Process.Signal(s) // fails only if it has ended
	}
}

// Kill ends the process like a crash, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.await(patience)
}

// Stop ends the process with SIGTERM. It returns an error if the process does not end in time, and is then
// killed, or if it ends with an error. It does nothing for a process that does not run.
func (p *Process) Stop() error {
	if !p.Running() {
		return nil
	}
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGTERM)
	if p.await(patience) {
		return p.fault()
	}
	p.Kill()
	return fmt.Errorf("%s did not end in %v; it said:\n%s", p.Name, patience, Tail(p.Log, 2000))
}

// fault returns the error of the process' end; nil: it has ended without one, or by SIGTERM, as etcd does.
func (p *Process) fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var exit *exec.ExitError
	if errors.As(p.last, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
			return nil
		}
	}
	if p.last == nil {
		return nil
	}
	return fmt.Errorf("%s ended with %w; it said:\n%s", p.Name, p.last, Tail(p.Log, 2000))
}

// await waits until the process has ended; false: it has not ended within limit.
func (p *Process) await(limit time.Duration) bool {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended == nil {
		return true
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// Tail returns the last bytes of a file, for messages.
func Tail(path string, size int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}

// poll calls try until it returns no error, or ctx ends.
func poll(ctx context.Context, try func(ctx context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// endWithUs makes the kernel kill a child when this process dies. Ctrl-C reaches only this process, which
// then stops its children.
func endWithUs(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}
