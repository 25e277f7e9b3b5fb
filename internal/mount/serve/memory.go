package serve

import (
	"fmt"
	"os"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// Memory returns memory that outlives this process: the holder keeps it, and gives it to the next daemon. It
// is the memory of the daemon before, or new and zero. Its size cannot change, so no access to it fails. It
// is mapped until the end of the process. Memory is called once, before Keep.
func (k *Keeper) Memory(size int) ([]byte, error) {
	if k.memory != nil {
		m, err := ring.Open(k.memory, size)
		if err != nil {
			return nil, fmt.Errorf("memory of the process before: %w: unmount, and mount with this version", err)
		}
		return m, nil
	}
	m, file, err := ring.Create(size)
	if err != nil {
		return nil, fmt.Errorf("memory that outlives this process: %w", err)
	}
	k.memory = file
	if err := k.giveMemory(); err != nil {
		return nil, fmt.Errorf("memory that outlives this process: the holder does not take it: %w", err)
	}
	return m, nil
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
