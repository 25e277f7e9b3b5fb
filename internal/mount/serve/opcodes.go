package serve

import "fmt"

// Operations of the protocol that the loop itself must know (enum fuse_opcode).
const (
	opLookup      = 1
	opForget      = 2
	opGetAttr     = 3
	opSetAttr     = 4
	opReadlink    = 5
	opSymlink     = 6
	opMknod       = 8
	opMkdir       = 9
	opUnlink      = 10
	opRmdir       = 11
	opRename      = 12
	opLink        = 13
	opRead        = 15
	opWrite       = 16
	opStatFS      = 17
	opRelease     = 18
	opSetXattr    = 21
	opGetXattr    = 22
	opListXattr   = 23
	opRemoveXattr = 24
	opInit        = 26
	opReadDir     = 28
	opReleaseDir  = 29
	opFsyncDir    = 30
	opGetLk       = 31
	opSetLk       = 32
	opSetLkw      = 33
	opAccess      = 34
	opCreate      = 35
	opInterrupt   = 36
	opIoctl       = 39
	opBatchForget = 42
	opReadDirPlus = 44
	opRename2     = 45
	opLseek       = 46
	opTmpfile     = 51
)

// operationNames are the names of operations in metrics, by their numbers in the protocol.
var operationNames = [...]string{
	1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename",
	13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr", 23: "listxattr",
	24: "removexattr", 25: "flush", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir", 31: "getlk", 32: "setlk", 33: "setlkw",
	34: "access", 35: "create", 36: "interrupt", 39: "ioctl", 40: "poll", 43: "fallocate", 44: "readdirplus", 45: "rename2", 46: "lseek",
	47: "copy_file_range", 50: "syncfs", 51: "tmpfile", 52: "statx",
}

// operationName returns the number of an operation without a name.
func operationName(op int) string {
	if op < len(operationNames) && operationNames[op] != "" {
		return operationNames[op]
	}
	return fmt.Sprint(op)
}
