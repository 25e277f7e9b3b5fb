package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/posix"
)

// The commands about a mounted tree call the mount through the extended attributes of each file
// (internal/mount, control.go). They need no address and no configuration, and have the permissions of their
// user.

// interruptibly makes a system call on a mount, which may take as long as the mount's timeout. When ctx ends
// before the call, interruptibly returns the error of ctx. The call goes on in its goroutine until it ends or
// the process ends.
func interruptibly(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() {
		for {
			err := call()
			if !errors.Is(err, syscall.EINTR) || ctx.Err() != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readControl reads an attribute of path; it returns the errors of the system.
func readControl(ctx context.Context, path, name string) ([]byte, error) {
	return readAttribute(ctx, unix.Getxattr, path, name)
}

// readControlOf is like readControl, but does not follow a symbolic link.
func readControlOf(ctx context.Context, path, name string) ([]byte, error) {
	return readAttribute(ctx, unix.Lgetxattr, path, name)
}

func readAttribute(ctx context.Context, get func(path, name string, into []byte) (int, error), path, name string) ([]byte, error) {
	value := make([]byte, posix.MaxXattr)
	var n int
	err := interruptibly(ctx, func() (err error) {
		n, err = get(path, name, value)
		return err
	})
	if err != nil {
		return nil, err
	}
	return value[:n], nil
}

// getControl reads an attribute that all files of a mount have.
func getControl(ctx context.Context, path, name string) ([]byte, error) {
	value, err := readControl(ctx, path, name)
	return value, explain(path, err)
}

// getJSON is like getControl, for an attribute in JSON.
func getJSON(ctx context.Context, path, name string, into any) error {
	value, err := getControl(ctx, path, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: %s: %w: this command and the mount are probably of different versions", path, name, err)
	}
	return nil
}

// setControl writes an attribute of path.
func setControl(ctx context.Context, path, name string, value []byte) error {
	err := interruptibly(ctx, func() error { return syscall.Setxattr(path, name, value, 0) })
	return explain(path, err)
}

// explain adds to an error the path, its reason and, if known, the remedy.
func explain(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENODATA):
		return fmt.Errorf("%s: not on a GlobalFS mount: 'findmnt -t fuse.globalfs' lists those of this machine", path)
	case errors.Is(err, syscall.ENOTCONN):
		return fmt.Errorf("%s: the process of this mount has ended: remove the mount with 'globalfs umount --force DIR', then mount the tree again", path)
	case errors.Is(err, syscall.ETIMEDOUT):
		return fmt.Errorf("%s: %w: a majority of the partition's replicas does not answer: check that the servers run and can be reached", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// checkOnMount refuses a path that is on no mount of GlobalFS. It does not follow a symbolic link.
func checkOnMount(ctx context.Context, path string) error {
	_, err := readControlOf(ctx, path, mount.XattrRegion)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENODATA) {
		return explain(path, err)
	}
	return nil // a later call on the path reports other errors
}

// quietOutputFlag adds the flag --output to a command that prints nothing in text if it succeeds.
func quietOutputFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "output", "o", "text", "text (nothing is printed) or json")
	command.Choice(cmd, cmd.Flags(), "output", "text", "json")
}

// outputFlag adds the flag --output.
func outputFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "output", "o", "text", "text or json")
	command.Choice(cmd, cmd.Flags(), "output", "text", "json")
}
