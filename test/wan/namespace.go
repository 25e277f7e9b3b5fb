package wan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/invariant"
)

// Command is exec.CommandContext for a program on a host: the process joins the host's network namespace and
// nothing else. It is killed when this process dies, unless the caller replaces SysProcAttr. An unknown host
// is an error of Start.
func (l *Lab) Command(ctx context.Context, host, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	if _, err := l.host(host); err != nil {
		c.Err = err
	}
	// nsenter becomes the program, with the same process id.
	c.Args = slices.Concat([]string{"nsenter", "--net=" + l.Namespace(host), "--", c.Path}, args)
	c.Path = l.nsenter
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Dial makes a TCP connection from a host to an address of the form IP:PORT.
func (l *Lab) Dial(ctx context.Context, host, address string) (connection net.Conn, err error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial from %s: %w (there are no names in the lab)", host, err) // a lookup would use another thread
	}
	err = l.Inside(host, func() error {
		connection, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return connection, err
}

// Inside calls do on a thread in the network namespace of a host. Sockets that do opens itself, not in other
// goroutines, and processes that it starts belong to the host permanently. Files below /proc/sys/net are the
// host's, too.
func (l *Lab) Inside(host string, do func() error) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	return inside(h.namespace, do)
}

func inside(namespace int, do func() error) error {
	return visit(func() error {
		if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return do()
	})
}

// visit calls do on a thread that runs no other goroutine meanwhile, so that do may change the thread's
// network namespace. Then visit restores the namespace.
func visit(do func() error) error {
	runtime.LockOSThread()
	home, err := currentNamespace()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		err := unix.Setns(home, unix.CLONE_NEWNET)
		invariant.Check(err == nil, "a thread that cannot leave a network namespace: %v", err) // the next goroutine on it would be on the wrong host
		_ = unix.Close(home)
		runtime.UnlockOSThread()
	}()
	return do()
}

// currentNamespace opens the network namespace of this thread.
func currentNamespace() (int, error) {
	const path = "/proc/thread-self/ns/net"
	descriptor, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return descriptor, nil
}

func newNamespace() (descriptor int, err error) {
	descriptor = -1
	err = visit(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return unavailable("make a network namespace", err)
		}
		descriptor, err = currentNamespace()
		return err
	})
	return descriptor, err
}

// unavailable wraps err, in ErrUnavailable too if it means that this machine or user lacks a requirement.
func unavailable(what string, err error) error {
	for _, reason := range []error{unix.EPERM, unix.EACCES, unix.ENOENT, unix.ENODEV, unix.ENOSYS, unix.EINVAL} {
		if errors.Is(err, reason) {
			return fmt.Errorf("%w: %s: %w (root and the TUN device are needed)", ErrUnavailable, what, err)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
