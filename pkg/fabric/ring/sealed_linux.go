package ring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Seals keep the size of shared memory: access to pages that are gone would end the process.
const Seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes sealed memory, and the file to pass it by. The caller closes the file.
func Create(size int) (Memory, *os.File, error) {
	fd, err := unix.MemfdCreate("globalfs-shm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "globalfs-shm")
	if err := file.Truncate(int64(size)); err != nil {
		return nil, nil, closed(file, fmt.Errorf("shared memory of %d bytes: %w", size, err))
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, Seals); err != nil {
		return nil, nil, closed(file, fmt.Errorf("seal the shared memory: %w", err))
	}
	m, err := mapped(file, size)
	if err != nil {
		return nil, nil, closed(file, err)
	}
	return m, file, nil
}

// closed closes a file after an error.
func closed(file *os.File, err error) error {
	_ = file.Close() // err is reported
	return err
}

// Open maps memory that a peer has made. The peer is not trusted: the file must be memory of this size that
// the peer can neither shrink nor let fail in another way.
func Open(file *os.File, size int) (Memory, error) {
	has, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || has&Seals != Seals {
		return nil, fmt.Errorf("the peer's segment is not sealed (seals %#x, %v): the peer is broken or of another version", has, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return nil, fmt.Errorf("the peer's segment is on a file system of type %#x, %v: the peer is broken or of another version", fs.Type, err)
	}
	info, err := file.Stat()
	if err != nil || info.Size() != int64(size) {
		return nil, fmt.Errorf("the peer's segment does not have %d bytes (%v): the peer is broken or of another version", size, err)
	}
	return mapped(file, size)
}

func mapped(file *os.File, size int) (Memory, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the shared memory: %w", err)
	}
	return bytes, nil
}

// Unmap ends the use of the memory. Nothing may use its rings or words any more.
func (m Memory) Unmap() {
	_ = unix.Munmap(m) // fails only for memory that is not mapped
}
