package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Detach unmounts what another process serves at dir, an absolute path. If programs use it that fails, unless by force: then they get errors
// from then on. It does not need the other process, which ends when it notices.
func Detach(dir string, force bool) error {
	if there, ok := mountedAt(dir); !ok || there.kind != "fuse.globalfs" {
		return fmt.Errorf("%s: no GlobalFS is mounted there: 'findmnt -t fuse.globalfs' lists those of this machine", dir)
	}
	flags, helperFlags := 0, "-u"
	if force {
		flags, helperFlags = unix.MNT_DETACH|unix.MNT_FORCE, "-uz"
	}
	err := unix.Unmount(dir, flags)
	if err != nil && os.Geteuid() != 0 {
		var out []byte
		if out, err = exec.Command("fusermount3", helperFlags, "--", dir).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
		}
	}
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s: %w: 'fuser -vm %s' shows by whom; --force takes it away from them", dir, err, dir)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
