package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// A command that goes on in the background starts this program again, with the same arguments, in a session of its own. The
// child writes to its standard error as the command would, until it can be used; then it says so on a pipe and the command ends.

// daemonEnvironment tells the child what it is.
const daemonEnvironment = "GLOBALFS_DAEMON_LOG"

// readyFD is the pipe's descriptor in the child.
const readyFD = 3

// isDaemon reports whether this process is such a child.
func isDaemon() bool {
	_, is := os.LookupEnv(daemonEnvironment)
	return is
}

// daemonize starts the child and waits until it can be used, or has failed.
func daemonize(ctx context.Context, stderr io.Writer, logFile string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = read.Close() }() // only for reading
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Args[0] = os.Args[0]
	child.Env = append(os.Environ(), daemonEnvironment+"="+logFile)
	child.Stderr, child.ExtraFiles = stderr, []*os.File{write}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if f, ok := stderr.(*os.File); ok {
		child.Stderr = f // the child keeps it, no goroutine copies
	}
	if err := errors.Join(child.Start(), write.Close()); err != nil {
		return err
	}
	told := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadString('\n')
		told <- line == "ready\n"
	}()
	select {
	case ready := <-told:
		if ready {
			return child.Process.Release()
		}
	case <-ctx.Done():
		_ = child.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return statusError{errSaid, exit.ExitCode()}
	}
	return errors.Join(err, ctx.Err())
}

// errSaid stands for an error that another process has printed.
var errSaid = errors.New("the process in the background has ended")

// tellParent says that the daemon can be used, and turns its output away from the terminal. In another process it does nothing.
func tellParent() {
	path, is := os.LookupEnv(daemonEnvironment)
	if !is {
		return
	}
	if path == "" {
		path = os.DevNull
	}
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintf(os.Stderr, "globalfs: no log: %v\n", err)
	} else {
		for _, fd := range []int{0, 1, 2} {
			_ = syscall.Dup3(int(log.Fd()), fd, 0) // cannot fail: both are open
		}
		_ = log.Close()
	}
	pipe := os.NewFile(readyFD, "ready")
	_, _ = pipe.WriteString("ready\n") // a parent that has gone does not care
	_ = pipe.Close()
}
