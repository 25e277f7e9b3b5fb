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

// supervise has another process serve the mount, and another one if that dies: programs wait meanwhile. It
// returns when one has ended by itself.
func supervise(ctx context.Context, logger *slog.Logger) error {
	first := os.Stderr // of the first one, until it says that the mount can be used
	if isDaemon() {
		if terminal, err := syscall.Dup(2); err == nil {
			syscall.CloseOnExec(terminal)
			first = os.NewFile(uintptr(terminal), "terminal")
		}
		turnAway()
	}
	started := false
	holder := serve.Holder{Logger: logger, Command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
		cmd.Args[0] = os.Args[0]
		cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), os.Stdout, first
		if started { // nobody waits for these
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
	return asItEnded(holder.Run(ctx))
}
