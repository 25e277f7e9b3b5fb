package serve

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Memory returns memory that outlives this process: the holder keeps it, and gives it to the next daemon. It
// is the memory of the daemon before, or new and zero. Its size cannot change, so no access to it fails. It
// is mapped until the end of the process. Memory is called once, before Keep.
func (k *Keeper) Memory(size int) ([]byte, error) {
	if k.memory == nil {
		file, err := newMemory(size)
		if err != nil {
			return nil, fmt.Errorf("memory that outlives this process: %w", err)
		}
		k.memory = file
		if err := k.giveMemory(); err != nil {
			return nil, fmt.Errorf("memory that outlives this process: the holder does not take it: %w", err)
		}
	}
	info, err := k.memory.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != int64(size) {
		return nil, fmt.Errorf("the process before has left %d bytes of memory, this version wants %d: unmount, and mount with this version", info.Size(), size)
	}
	return unix.Mmap(int(k.memory.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// newMemory makes a file of a fixed size that has no name and is in memory.
func newMemory(size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("globalfs-log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "log")
	if err = f.Truncate(int64(size)); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// giveMemory gives the memory to the holder, if there is any.
func (k *Keeper) giveMemory() error {
	if k.memory == nil {
		return nil
	}
	return k.link.send(wordMemory, int(k.memory.Fd()))
}

// takeMemory receives the memory of the daemon before, behind its state.
func (k *Keeper) takeMemory() error {
	word, fds, err := k.link.receive(wordTime, 1)
	if err == nil && word == wordMemory && len(fds) == 1 {
		k.memory = os.NewFile(uintptr(fds[0]), "log")
	}
	return err
}

// sendMemory sends the memory, or that there is none, behind the state to a new daemon.
func (h *held) sendMemory(to *link) error {
	if h.kept == nil {
		return to.send(wordNone)
	}
	return to.send(wordMemory, int(h.kept.Fd()))
}
