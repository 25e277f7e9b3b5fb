package posix

import (
	"syscall"
	"testing"
)

func TestCodesAreComplete(t *testing.T) {
	seen := map[uint32]Code{}
	for c := range codeEnd {
		e := codes[c]
		if e.name == "" || e.text == "" {
			t.Errorf("code %d has no entry", c)
		}
		if other, ok := seen[e.errno]; ok {
			t.Errorf("%v and %v share errno %d", c, other, e.errno)
		}
		seen[e.errno] = c
	}
	for c, want := range map[Code]syscall.Errno{
		ENOENT: syscall.ENOENT, ESTALE: syscall.ESTALE, ENOTEMPTY: syscall.ENOTEMPTY, ENODATA: syscall.ENODATA,
		EOPNOTSUPP: syscall.EOPNOTSUPP, ETIMEDOUT: syscall.ETIMEDOUT, ENAMETOOLONG: syscall.ENAMETOOLONG, EXDEV: syscall.EXDEV,
		ELOOP: syscall.ELOOP, EMLINK: syscall.EMLINK, E2BIG: syscall.E2BIG, ERANGE: syscall.ERANGE, ENXIO: syscall.ENXIO,
	} {
		if c.Errno() != uint32(want) {
			t.Errorf("%v is errno %d, want %d", c, c.Errno(), want)
		}
	}
	if codeEnd.Errno() != uint32(syscall.EIO) || codeEnd.Valid() {
		t.Error("an unknown code must be EIO")
	}
}

func TestNumbers(t *testing.T) {
	i := MakeIno(3, 77)
	if i.Partition() != 3 || i.Counter() != 77 || MakeIno(0, 1) != Root {
		t.Errorf("ino %d", i)
	}
	if got := MakeBlockID(0x0102, 0x030405060708, 0x090a0b0c0d0e0f10).String(); got != "0102030405060708090a0b0c0d0e0f10" {
		t.Errorf("block id %s", got)
	}
	id := MakeBlockID(0xfffe, 1<<48-2, 1<<64-3)
	if id.Partition() != 0xfffe || id.Session() != 1<<48-2 || id.Counter() != 1<<64-3 {
		t.Errorf("block id %v is of partition %d, session %d, counter %d", id, id.Partition(), id.Session(), id.Counter())
	}
}
