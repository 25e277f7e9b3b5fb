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

// patience is how long a process may take to start or to end.
const patience = 60 * time.Second

// Process is a program that can be started again and again. Its methods must not be called concurrently, but
// those of different processes may.
type Process struct {
	Name string
	Log  string   // file with all that it has said
	Env  []string // beside the environment of the test, from the next start on

	command func(ctx context.Context) *exec.Cmd
	ready   func(ctx context.Context) error // returns when it can be used
	profile *profiler                       // nil: none is served

	mu    sync.Mutex
	now   *exec.Cmd     // GUARDED_BY mu; nil: it does not run
	ended chan struct{} // GUARDED_BY mu; closed when it has
	last  error         // GUARDED_BY mu; how the last run ended
}

// Start starts it and waits until it can be used.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.AwaitReady(ctx)
}

// AwaitReady waits until it can be used, or has ended.
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

// Launch starts it and does not wait.
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

// Running reports whether it runs, be it paused.
func (p *Process) Running() bool { return p.PID() != 0 }

// PID gives its process id, 0 if it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return 0
	}
	return p.now.Process.Pid
}

// Signal sends a signal; it is no error if it has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		_ = p.now.Process.Signal(s) // fails only if it has ended
	}
}

// Kill ends it as a crash does, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.await(patience)
}

// Stop ends it in order. What does not end in time is killed, which is an error, and so is to end otherwise
// than by what it was asked. What does not run any more is no error: somebody has ended it.
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

// fault says what was wrong with its end; nil: it has ended well, or etcd's way, by the signal.
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

// await returns when the process has ended, false if it has not for a while.
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

// Tail gives the last bytes of a file, for messages.
func Tail(path string, size int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}

// poll calls try until it gives no error, or ctx ends.
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

// endWithUs has the kernel kill a child when this process dies. Ctrl-C is for this process only, which ends
// its children in order.
func endWithUs(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}
