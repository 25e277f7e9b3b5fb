package cli

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/globalfs/globalfs/internal/mount/serve"
)

// supervise runs the process that serves the mount in a child process, and starts a new one when it is
// killed: programs that use the mount wait meanwhile. supervise returns when a child has ended by itself.
func supervise(ctx context.Context, logger *slog.Logger) error {
	first := os.Stderr // stderr of the first process, until the mount is ready
	if isDaemon() {
		if terminal, err := syscall.Dup(2); err == nil {
			syscall.CloseOnExec(terminal)
			first = os.NewFile(uintptr(terminal), "terminal")
		}
		leaveTerminal()
	}
	started := false
	holder := serve.Holder{Logger: logger, Command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
		cmd.Args[0] = os.Args[0]
		cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), os.Stdout, first
		if started { // no process waits for a later one to become ready
			cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, readyEnvironment+"=") })
		}
		return cmd
	}, Started: func() {
		started = true
		if first != os.Stderr {
			_ = first.Close()
			first = os.Stderr
		}
	}}
	return withItsExitCode(holder.Run(ctx))
}
