package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/bench/compare"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
)

// newBenchLoopback makes the command of the process that serves the loopback file system of `bench mount`.
func newBenchLoopback() *cobra.Command {
	return &cobra.Command{
		Use:    "loopback DIR MOUNTPOINT",
		Short:  "Serve go-fuse's loopback file system",
		Hidden: true,
		Long: `loopback is started by 'bench mount --loopback'. It shows DIR at MOUNTPOINT with the options of go-fuse's example, prints a line when that
can be used, and unmounts at SIGTERM.`,
		Example: `  globalfs bench loopback /var/tmp /mnt/loopback`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.UsageError(fmt.Errorf("%s: give DIR and MOUNTPOINT", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l := mount.Loopback{Backing: args[0], Dir: args[1]}
			unmount, err := l.Mount()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			<-cmd.Context().Done()
			return unmount()
		},
	}
}

// startLoopback starts a process that serves a directory through loopback FUSE until end is called.
func startLoopback(ctx context.Context, backing string) (_ compare.Directory, end func() error, err error) {
	none := compare.Directory{}
	if info, err := os.Stat(backing); err != nil || !info.IsDir() {
		return none, nil, command.InputError(fmt.Errorf("--loopback %s: give an existing directory", backing))
	}
	if backing, err = filepath.Abs(backing); err != nil {
		return none, nil, err
	}
	dir, err := os.MkdirTemp("", "globalfs-loopback-")
	if err != nil {
		return none, nil, err
	}
	var output strings.Builder
	cmd := exec.Command("/proc/self/exe", "bench", "loopback", backing, dir)
	cmd.Stderr = &output
	// SIGTERM also ends it if this process is killed. It is not in the group that Ctrl-C reaches.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return none, nil, errors.Join(err, os.Remove(dir))
	}
	end = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("loopback of %s: %w: %s", backing, err, strings.TrimSpace(output.String()))
		}
		return errors.Join(err, os.Remove(dir))
	}
	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		ready <- err
	}()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(30 * time.Second):
		err = errors.New("not mounted within 30 s")
	}
	if err != nil {
		return none, nil, errors.Join(fmt.Errorf("loopback of %s: %w", backing, err), end())
	}
	d := compare.Directory{Name: "loopback", Path: dir, Processes: []compare.Process{{Name: "loopback", PID: cmd.Process.Pid}}}
	return d, end, nil
}
