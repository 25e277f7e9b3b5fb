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

// A command that goes on in the background starts this program again, with the same arguments, in a session
// of its own. The child writes to its standard error as the command would, until it can be used; then it says
// so on a pipe and the command ends.

// daemonEnvironment tells the child that it is one, and its log.
const daemonEnvironment = "GLOBALFS_DAEMON_LOG"

// readyEnvironment tells the child where to say that it can be used: a file.
const readyEnvironment = "GLOBALFS_DAEMON_READY"

// isDaemon reports whether this process is such a child.
func isDaemon() bool {
	_, is := os.LookupEnv(daemonEnvironment)
	return is
}

// daemonize starts the child and waits until it can be used, or has failed.
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
	// By its path in /proc, so that a child of the child can say it, too.
	child.Env = append(os.Environ(), daemonEnvironment+"="+logFile, fmt.Sprintf("%s=/proc/%d/fd/%d", readyEnvironment, os.Getpid(), write.Fd()))
	child.Stderr = stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if f, ok := stderr.(*os.File); ok {
		child.Stderr = f // the child keeps it, no goroutine copies
	}
	if err := child.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	ended := make(chan error, 1)
	go func() {
		err := child.Wait()
		_ = write.Close() // nobody will say anything any more
		ended <- err
	}()
	told := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadString('\n')
		told <- line == "ready\n"
	}()
	select {
	case ready := <-told:
		if ready {
			return nil
		}
	case <-ctx.Done():
		_ = child.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	return errors.Join(asItEnded(<-ended), ctx.Err())
}

// asItEnded passes on how another process has ended, which has said why.
func asItEnded(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return command.StatusError(errSaid, exit.ExitCode())
	}
	return err
}

// errSaid stands for an error that another process has printed.
var errSaid = errors.New("the process in the background has ended")

// backgroundLog gives the file that a process in the background logs to: the one that the user wants, which
// must be usable, or the usual one, or none if that is not.
func backgroundLog(wanted string, stderr io.Writer) (string, error) {
	path := wanted
	if path == "" {
		path = usualLog()
	}
	log, err := openLog(path)
	switch {
	case err == nil:
		return path, log.Close()
	case wanted != "":
		return "", command.InputError(fmt.Errorf("--log-file: %w", err))
	}
	fmt.Fprintf(stderr, "globalfs: the mount goes without a log, see --log-file: %v\n", err)
	return os.DevNull, nil
}

// usualLog is in /var/log, or for other users than root below their home directory.
func usualLog() string {
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

// openLog opens a log for more lines. logrotate's copytruncate fits it, and so do several processes.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// turnAway turns a daemon's input and output away from the terminal, to its log.
func turnAway() {
	log, err := openLog(os.Getenv(daemonEnvironment))
	if err != nil {
		fmt.Fprintf(os.Stderr, "globalfs: the mount goes without a log: %v\n", err)
		if log, err = openLog(os.DevNull); err != nil {
			return
		}
	}
	for _, fd := range []int{0, 1, 2} {
		_ = syscall.Dup3(int(log.Fd()), fd, 0) // cannot fail: both are open
	}
	_ = log.Close()
}

// tellParent says that a daemon can be used, and turns away from the terminal. In another process it does
// nothing.
func tellParent() {
	if !isDaemon() {
		return
	}
	turnAway()
	if ready, err := os.OpenFile(os.Getenv(readyEnvironment), os.O_WRONLY, 0); err == nil { // else the parent has gone
		_, _ = ready.WriteString("ready\n")
		_ = ready.Close()
	}
}
