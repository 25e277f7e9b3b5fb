package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/spf13/cobra"
)

func newToken() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "token [PATH]",
		Short: "Print a causality token of a mount, for 'globalfs wait' on another one",
		Long: `token prints a short text that stands for all updates that the mount at PATH (default: the working directory) has written and
seen until now. Pass it to 'globalfs wait' on another mount: when that command returns, the other mount shows all of them.`,
		Example: `  globalfs token /mnt/oregon
  ssh ireland globalfs wait "$(globalfs token /mnt/oregon)" /mnt/globalfs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError(fmt.Errorf("token takes one PATH, got %q", args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := getControl(cmd.Context(), pathOr(args), mount.XattrToken)
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(cmd.OutOrStdout(), map[string]string{"token": string(token)})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", token)
			return err
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func newWait() *cobra.Command {
	var timeout time.Duration
	var output string
	cmd := &cobra.Command{
		Use:   "wait TOKEN [PATH]",
		Short: "Block until a mount has applied every update covered by a token",
		Long: `wait returns when the mount at PATH (default: the working directory) shows all updates of TOKEN, which 'globalfs token' has printed on
another mount. It needs permission to write at PATH. It waits a second longer than the servers need, until the kernel has
dropped old names from its cache.`,
		Example: `  globalfs wait BAECBwA /mnt/globalfs && make -C /mnt/globalfs/project
  globalfs wait --timeout 5s "$TOKEN"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.UsageError(fmt.Errorf("wait takes a TOKEN and at most one PATH, got %q", args))
			}
			if len(args) == 2 && isThere(args[0]) && !isThere(args[1]) {
				return command.UsageError(fmt.Errorf("wait: give the TOKEN before the PATH: 'globalfs wait %s %s'", args[1], args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return command.InputError(fmt.Errorf("--timeout %v: give a positive duration such as 30s", timeout))
			}
			began := time.Now()
			if err := waitFor(cmd.Context(), pathOr(args[1:]), args[0], timeout); err != nil || output != "json" {
				return err
			}
			return command.PrintJSON(cmd.OutOrStdout(), map[string]float64{"seconds": time.Since(began).Seconds()})
		},
	}
	command.DurationVar(cmd.Flags(), &timeout, "timeout", time.Minute, "time limit of the wait; then the command fails")
	quietOutputFlag(cmd, &output)
	return cmd
}

// pathOr returns the PATH of a command, or the working directory.
func pathOr(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// waitFor waits for a token. It repeats the operation of the mount, which has a shorter timeout, until
// timeout.
func waitFor(ctx context.Context, path, token string, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := setControl(waiting, path, mount.XattrWait, []byte(token))
		switch {
		case ctx.Err() != nil:
			return errors.New("wait: interrupted")
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("%s: not there within %v: give more --timeout, or check with 'globalfs where' which replicas answer", path, timeout)
		case errors.Is(err, syscall.EINVAL):
			return command.InputError(fmt.Errorf("token %q: not one that 'globalfs token' has printed for this tree", token))
		case errors.Is(err, syscall.EACCES):
			return fmt.Errorf("%w: name a PATH of this mount where you may write", err)
		case !errors.Is(err, syscall.ETIMEDOUT):
			return err
		}
	}
}
