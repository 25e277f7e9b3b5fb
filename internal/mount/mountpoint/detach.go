package mountpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Detach unmounts the GlobalFS at dir, an absolute path, that another process serves. It fails if programs
// use the mount, unless force is set: then their requests fail from then on. It needs no answer of the other
// process, which ends when it notices.
func Detach(dir string, force bool) error {
	if there, ok := At(dir); !ok || there.Kind != FSType {
		return fmt.Errorf("%s: no GlobalFS is mounted there: 'findmnt -t fuse.globalfs' lists those of this machine", dir)
	}
	take := DetachIdle
	if force {
		take = DetachBusy
	}
	err := take(dir)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s: %w: 'fuser -vm %s' shows by whom; --force takes it away from them", dir, err, dir)
	}
	if err != nil && os.Geteuid() != 0 {
		return fmt.Errorf("unmount %s: %w (only root, and the user who runs the mount, may unmount it)", dir, err)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
