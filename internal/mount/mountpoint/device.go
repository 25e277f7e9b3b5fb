package mountpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// FSType is the type that df -T and findmnt show.
const FSType = "fuse.globalfs"

// Options of the kernel for a new mount.
type Options struct {
	Source string // the source that df and findmnt show
	Flags  Flags
	Kernel []string // options that mount(2) and fusermount3 both understand
}

// Attach mounts at dir and returns the descriptor of /dev/fuse by which the mount is served. Root calls
// mount(2), and falls back to fusermount3 if that is not permitted. Other users need fusermount3.
func Attach(dir string, o *Options) (fd int, err error) {
	if os.Geteuid() != 0 {
		return attachByHelper(dir, o)
	}
	fd, err = attachDirectly(dir, o)
	if err != nil {
		if helped, failed := attachByHelper(dir, o); failed == nil {
			return helped, nil
		}
	}
	return fd, err
}

func attachDirectly(dir string, o *Options) (fd int, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return -1, err
	}
	fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	data := append(slices.Clone(o.Kernel), fmt.Sprintf("fd=%d", fd), fmt.Sprintf("rootmode=%o", st.Mode&unix.S_IFMT),
		fmt.Sprintf("user_id=%d", os.Geteuid()), fmt.Sprintf("group_id=%d", os.Getegid()))
	if err := unix.Mount(o.Source, dir, FSType, o.Flags.bits(), strings.Join(data, ",")); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// helper is the set-user-id program by which users mount.
const helper = "fusermount3"

// attachByHelper has fusermount3 mount; it sends the open /dev/fuse through a socket.
func attachByHelper(dir string, o *Options) (fd int, err error) {
	flags, err := o.Flags.helperOptions()
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "fusermount")
	defer func() { _ = unix.Close(pair[0]) }()
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	options := slices.Concat(o.Kernel, flags, []string{"fsname=" + escape.Replace(o.Source), "subtype=globalfs"})
	cmd := exec.Command(helper, "-o", strings.Join(options, ","), "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	output, err := cmd.CombinedOutput()
	if err := errors.Join(err, theirs.Close()); err != nil {
		return -1, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output)))
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", helper, err)
	}
	fds, err := Descriptors(control[:n], 1)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", helper, err)
	}
	return fds[0], nil
}

// Descriptors returns the file descriptors in a socket's control message. Any other number of descriptors
// than count is an error; they are closed then.
func Descriptors(control []byte, count int) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err == nil && len(messages) > 0 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil || len(messages) != 1 || len(fds) != count {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, fmt.Errorf("a message with %d file descriptors instead of %d: %w", len(fds), count, errors.Join(err, unix.EBADMSG))
	}
	return fds, nil
}

// The number of attempts to change a mount that is in use, and the first pause between them, which doubles.
// The kernel may close a file, or forget a removed one, a moment after the system call of the program has
// returned.
const (
	busyTries = 5
	busyPause = 5 * time.Millisecond
)

// tryBusy calls change until it succeeds, or the mount is in use for long.
func tryBusy(change func() error) (err error) {
	pause := busyPause
	for try := range busyTries {
		if try > 0 {
			<-time.After(pause)
			pause *= 2
		}
		if err = change(); err == nil {
			return nil
		}
	}
	return err
}

// DetachIdle unmounts dir. It fails with EBUSY if programs use the mount.
func DetachIdle(dir string) error {
	return tryBusy(func() error { return detach(dir, 0, "-u") })
}

// DetachBusy unmounts dir at once, also if programs use the mount. Called by root, it ends the connection
// with the kernel too. Otherwise the connection ends with the last open file, or with the process that serves
// it.
func DetachBusy(dir string) error { return detach(dir, unix.MNT_DETACH|unix.MNT_FORCE, "-uz") }

func detach(dir string, flags int, helperFlags string) error {
	direct := unix.Unmount(dir, flags)
	if direct == nil || os.Geteuid() == 0 {
		return direct
	}
	out, err := exec.Command(helper, helperFlags, "--", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Probe is a name in the root of each mount. go-fuse answers requests for it.
const Probe = ".go-fuse-epoll-hack"

// Awaken waits until the mount at dir is served. It also makes the kernel learn that poll(2) does nothing
// here, before a Go program, which polls each file that it opens, opens one: if that is this process, its
// poller would wait for itself. It returns once requests are served.
func Awaken(dir string) error {
	fd, err := unix.Open(dir+"/"+Probe, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // what counts is that it was asked
	return unix.Close(fd)
}
