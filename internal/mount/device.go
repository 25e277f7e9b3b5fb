package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fsType is what df -T and findmnt show.
const fsType = "fuse.globalfs"

// attach puts a file system into the tree at dir, and gives the /dev/fuse by which to serve it. As root it mounts by itself, and with
// fusermount3 if it may not; other users need that.
func attach(dir string, o *Options) (fd int, err error) {
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
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if o.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	data := append(o.kernel(), fmt.Sprintf("fd=%d", fd), fmt.Sprintf("rootmode=%o", st.Mode&unix.S_IFMT),
		fmt.Sprintf("user_id=%d", os.Geteuid()), fmt.Sprintf("group_id=%d", os.Getegid()))
	if err := unix.Mount(o.FsName, dir, fsType, flags, strings.Join(data, ",")); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// helper is the set-user-id program by which users mount.
const helper = "fusermount3"

// attachByHelper has fusermount3 mount; it sends the open /dev/fuse through a socket.
func attachByHelper(dir string, o *Options) (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "fusermount")
	defer func() { _ = unix.Close(pair[0]) }()
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	options := append(o.kernel(), "fsname="+escape.Replace(o.FsName), "subtype=globalfs")
	if o.ReadOnly {
		options = append(options, "ro")
	}
	cmd := exec.Command(helper, "-o", strings.Join(options, ","), "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	said, err := cmd.CombinedOutput()
	if err := errors.Join(err, theirs.Close()); err != nil {
		return -1, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said)))
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", helper, err)
	}
	fds, err := descriptorsIn(control[:n], 1)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", helper, err)
	}
	return fds[0], nil
}

// descriptorsIn gives the file descriptors that came with a message, which must be so many.
func descriptorsIn(control []byte, count int) (fds []int, err error) {
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

// Tries to take a mount away that is in use, and the first pause between them, which doubles: the kernel closes files after the
// program that had them open has been told so.
const (
	detachTries = 5
	detachPause = 5 * time.Millisecond
)

// detachIdle takes the mount at dir out of the tree if nobody uses it.
func detachIdle(dir string) (err error) {
	pause := detachPause
	for try := range detachTries {
		if try > 0 {
			<-time.After(pause)
			pause *= 2
		}
		if err = detach(dir, 0, "-u"); err == nil {
			return nil
		}
	}
	return err
}

// detachBusy takes it out of the tree at once. As root it also ends the connection; otherwise that ends with
// the last user or with this process.
func detachBusy(dir string) error { return detach(dir, unix.MNT_DETACH|unix.MNT_FORCE, "-uz") }

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

// probe is a name in the root of each mount that go-fuse answers for.
const probe = ".go-fuse-epoll-hack"

// awaken makes the kernel learn that poll(2) does nothing here, before a Go program, which polls each file that it opens, opens one:
// if that is this process, its poller would wait for itself. It returns once requests are served.
func awaken(dir string) error {
	fd, err := unix.Open(dir+"/"+probe, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // what counts is that it was asked
	return unix.Close(fd)
}
