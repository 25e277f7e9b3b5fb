package mountpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Flags are the properties of a mount that the kernel enforces. The zero value is the default.
type Flags struct {
	ReadOnly    bool // each change fails with EROFS
	Suid        bool // set-user-id programs have their effect; only root can mount so
	Dev         bool // device files have their effect; only root can mount so
	NoExec      bool // no program can be executed
	NoSymFollow bool // symbolic links are not followed; only root can mount so
}

// Set applies a mount option of mount(8). It returns false if the option is not about flags.
func (f *Flags) Set(option string) bool {
	switch option {
	case "ro", "rw":
		f.ReadOnly = option == "ro"
	case "suid", "nosuid":
		f.Suid = option == "suid"
	case "dev", "nodev":
		f.Dev = option == "dev"
	case "exec", "noexec":
		f.NoExec = option == "noexec"
	case "symfollow", "nosymfollow":
		f.NoSymFollow = option == "nosymfollow"
	default:
		return false
	}
	return true
}

// bits returns the flags of mount(2).
func (f Flags) bits() (bits uintptr) {
	for bit, is := range map[uintptr]bool{
		unix.MS_RDONLY: f.ReadOnly, unix.MS_NOSUID: !f.Suid, unix.MS_NODEV: !f.Dev,
		unix.MS_NOEXEC: f.NoExec, unix.MS_NOSYMFOLLOW: f.NoSymFollow,
	} {
		if is {
			bits |= bit
		}
	}
	return bits
}

// helperOptions returns the options for fusermount3, which has no others.
func (f Flags) helperOptions() (options []string, err error) {
	if f.Suid || f.Dev || f.NoSymFollow {
		return nil, errors.New("only root can mount with the options suid, dev and nosymfollow")
	}
	if f.ReadOnly {
		options = append(options, "ro")
	}
	if f.NoExec {
		options = append(options, "noexec")
	}
	return options, nil
}

// stNoSymFollow is ST_NOSYMFOLLOW of linux/statfs.h.
const stNoSymFollow = 0x2000

// FlagsOf returns the flags of the mount at dir.
func FlagsOf(dir string) (Flags, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Flags{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	has := func(bit int64) bool { return st.Flags&bit != 0 }
	return Flags{
		ReadOnly: has(unix.ST_RDONLY), Suid: !has(unix.ST_NOSUID), Dev: !has(unix.ST_NODEV),
		NoExec: has(unix.ST_NOEXEC), NoSymFollow: has(stNoSymFollow),
	}, nil
}

// Remount changes the flags of the mount at dir. Only root can do this. While files are open for writing, the
// mount cannot become read-only: EBUSY.
func Remount(dir string, f Flags) error {
	err := tryBusy(func() error { return unix.Mount("", dir, "", unix.MS_REMOUNT|f.bits(), "") })
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remount %s: %w: files are open for writing, or were removed and are still open; 'fuser -vm %[1]s' lists the programs", dir, err)
	}
	if err != nil {
		return fmt.Errorf("remount %s: %w", dir, err)
	}
	return nil
}
