package posix

import "fmt"

// Code is the outcome of an operation on the wire and in logs; its numbers never change. 0 is success. One
// table, Errno, translates it to an errno.
type Code uint8

// The codes. Append only.
const (
	OK Code = iota
	EPERM
	ENOENT
	EIO
	EACCES
	EBUSY
	EEXIST
	EXDEV
	ENOTDIR
	EISDIR
	EINVAL
	EFBIG
	ENOSPC
	EROFS
	EMLINK
	ENAMETOOLONG
	ENOTEMPTY
	ELOOP
	ENODATA
	ESTALE
	EOPNOTSUPP
	ETIMEDOUT
	ERANGE
	E2BIG
	EINTR
	EBADF
	ENXIO
	EAGAIN
	EDEADLK
	ENOLCK
	EREMOTE // never leaves a client: the command must go to other partitions, or be tried again
	EHELD   // never leaves a client: a command met a hold of an undecided one; nothing was changed: try again
	ENFILE  // never leaves a client
	codeEnd
)

// codes gives each Code its Linux errno (x86 and arm agree on these), its name and its message.
var codes = [codeEnd]struct {
	errno uint32
	name  string
	text  string
}{
	OK:           {0, "OK", "success"},
	EPERM:        {1, "EPERM", "operation not permitted"},
	ENOENT:       {2, "ENOENT", "no such file or directory"},
	EIO:          {5, "EIO", "input/output error"},
	EACCES:       {13, "EACCES", "permission denied"},
	EBUSY:        {16, "EBUSY", "device or resource busy"},
	EEXIST:       {17, "EEXIST", "file exists"},
	EXDEV:        {18, "EXDEV", "link across partitions"},
	ENOTDIR:      {20, "ENOTDIR", "not a directory"},
	EISDIR:       {21, "EISDIR", "is a directory"},
	EINVAL:       {22, "EINVAL", "invalid argument"},
	EFBIG:        {27, "EFBIG", "file too large"},
	ENOSPC:       {28, "ENOSPC", "no space left"},
	EROFS:        {30, "EROFS", "read-only file system"},
	EMLINK:       {31, "EMLINK", "too many links"},
	ENAMETOOLONG: {36, "ENAMETOOLONG", "name too long"},
	ENOTEMPTY:    {39, "ENOTEMPTY", "directory not empty"},
	ELOOP:        {40, "ELOOP", "too many symbolic links"},
	ENODATA:      {61, "ENODATA", "no such attribute"},
	ESTALE:       {116, "ESTALE", "stale file handle"},
	EOPNOTSUPP:   {95, "EOPNOTSUPP", "operation not supported"},
	ETIMEDOUT:    {110, "ETIMEDOUT", "timed out"},
	ERANGE:       {34, "ERANGE", "result too large for the buffer"},
	E2BIG:        {7, "E2BIG", "argument too large"},
	EINTR:        {4, "EINTR", "interrupted"},
	EBADF:        {9, "EBADF", "bad file descriptor"},
	ENXIO:        {6, "ENXIO", "no such data or hole"},
	EAGAIN:       {11, "EAGAIN", "resource temporarily unavailable"},
	EDEADLK:      {35, "EDEADLK", "resource deadlock avoided"},
	ENOLCK:       {37, "ENOLCK", "no locks available"},
	EREMOTE:      {66, "EREMOTE", "object is in another partition"},
	ENFILE:       {23, "ENFILE", "too many open files in the system"},
	EHELD:        {85, "EHELD", "a command of several partitions holds it"},
}

// Valid reports whether c is a code that this version knows.
func (c Code) Valid() bool { return c < codeEnd }

// Errno returns the Linux errno of c; an unknown code is EIO.
func (c Code) Errno() uint32 {
	if !c.Valid() {
		return codes[EIO].errno
	}
	return codes[c].errno
}

// String returns the symbolic name.
func (c Code) String() string {
	if !c.Valid() {
		return fmt.Sprintf("code %d", uint8(c))
	}
	return codes[c].name
}

// Error makes Code an error, for errors.As at the edges. OK must not be used as an error.
func (c Code) Error() string {
	if !c.Valid() {
		return c.String()
	}
	return codes[c].text
}

// Err returns nil for OK, else c.
func (c Code) Err() error {
	if c == OK {
		return nil
	}
	return c
}
