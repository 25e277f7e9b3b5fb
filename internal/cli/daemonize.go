package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/globalfs/globalfs/internal/command"
)

// A command that continues in the background starts this program again, with the same arguments, in a new
// session. The child writes to the command's standard error until it is ready. Then it reports this on a
// pipe, and the command ends.

// daemonEnvironment is the environment variable with the log of a child.
const daemonEnvironment = "GLOBALFS_DAEMON_LOG"

// readyEnvironment is the environment variable with the file to which a child reports that it is ready.
const readyEnvironment = "GLOBALFS_DAEMON_READY"

// isDaemon reports whether this process is the child of a command that continues in the background.
func isDaemon() bool {
	_, is := os.LookupEnv(daemonEnvironment)
	return is
}

// daemonize starts the child and waits until it is ready or has failed.
func daemonize(ctx context.Context, stderr io.Writer, wantedLog string) error {
	logFile, err := backgroundLog(wantedLog, stderr)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = read.Close() }() // only for reading
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Args[0] = os.Args[0]
	// By its path in /proc, so that a child of the child can write to it, too.
	child.Env = append(os.Environ(), daemonEnvironment+"="+logFile, fmt.Sprintf("%s=/proc/%d/fd/%d", readyEnvironment, os.Getpid(), write.Fd()))
	child.Stderr = stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if f, ok := stderr.(*os.File); ok {
		child.Stderr = f // the child gets the file itself, and no goroutine copies
	}
	if err := child.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	ended := make(chan error, 1)
	go func() {
		err := child.Wait()
		_ = write.Close() // no process writes to it any more
		ended <- err
	}()
	started := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadString('\n')
		started <- line == "ready\n"
	}()
	select {
	case ready := <-started:
		if ready {
			return nil
		}
	case <-ctx.Done():
		_ = child.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	return errors.Join(withItsExitCode(<-ended), ctx.Err())
}

// withItsExitCode turns the exit error of another process, which has printed its error, into an error with
// the same exit code.
func withItsExitCode(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return command.StatusError(errPrinted, exit.ExitCode())
	}
	return err
}

// errPrinted stands for an error that another process has printed: Main does not print it again.
var errPrinted = errors.New("the process in the background has ended")

// backgroundLog returns the log file of a process in the background: the wanted one, which must be usable. If
// wanted is empty, it returns the default log if that is usable, and "" otherwise.
func backgroundLog(wanted string, stderr io.Writer) (string, error) {
	path := wanted
	if path == "" {
		path = defaultLog()
	}
	log, err := openLog(path)
	switch {
	case err == nil:
		return path, log.Close()
	case wanted != "":
		return "", command.InputError(fmt.Errorf("--log-file: %w", err))
	}
	fmt.Fprintf(stderr, "globalfs: the mount runs without a log, see --log-file: %v\n", err)
	return os.DevNull, nil
}

// defaultLog returns the default log: in /var/log for root, below the home directory for other users.
func defaultLog() string {
	if os.Getuid() == 0 {
		return "/var/log/globalfs.log"
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return os.DevNull
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "globalfs", "mount.log")
}

// openLog opens a log for appending. It works with logrotate's copytruncate, and with several processes.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// leaveTerminal redirects a daemon's input and output from the terminal to its log.
func leaveTerminal() { redirect(os.Getenv(daemonEnvironment)) }

// redirect makes a log file the standard input, output and error of this process.
func redirect(path string) {
	log, err := openLog(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "globalfs: the mount runs without a log: %v\n", err)
		if log, err = openLog(os.DevNull); err != nil {
			return
		}
	}
	for _, fd := range []int{0, 1, 2} {
		_ = syscall.Dup3(int(log.Fd()), fd, 0) // cannot fail: both are open
	}
	_ = log.Close()
}

// reportReady reports to the parent process that a daemon is ready, and leaves the terminal. In other
// processes it does nothing.
func reportReady() {
	if !isDaemon() {
		return
	}
	leaveTerminal()
	if ready, err := os.OpenFile(os.Getenv(readyEnvironment), os.O_WRONLY, 0); err == nil { // otherwise the parent has ended
		_, _ = ready.WriteString("ready\n")
		_ = ready.Close()
	}
}
