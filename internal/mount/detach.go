package mount

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Detach unmounts what another process serves at dir, an absolute path. If programs use it that fails, unless by force: then they get errors
// from then on. It does not need the other process, which ends when it notices.
func Detach(dir string, force bool) error {
	if there, ok := mountedAt(dir); !ok || there.kind != "fuse.globalfs" {
		return fmt.Errorf("%s: no GlobalFS is mounted there: 'findmnt -t fuse.globalfs' lists those of this machine", dir)
	}
	take := detachIdle
	if force {
		take = detachBusy
	}
	err := take(dir)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s: %w: 'fuser -vm %s' shows by whom; --force takes it away from them", dir, err, dir)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
