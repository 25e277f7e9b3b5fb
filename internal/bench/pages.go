package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dropPages asks the kernel to forget what it has cached of f.
func dropPages(f *os.File) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("fadvise %s: %w", f.Name(), err)
	}
	return nil
}
