// Package serve runs a FUSE mount: it reads the kernel's requests, has a FileSystem answer them and writes
// the answers. It also keeps the mount alive while its process changes: by a handover to a successor, or by a
// Holder that survives the process. Decoding and encoding are go-fuse's; go-fuse's own loop can neither stop
// before the mount ends nor leave a request to a successor.
//
// # One process after the other
//
// Reading stops between two requests: no request is lost and none is cut off. Requests that change something
// are then awaited. If the cluster does not answer them, the mount is not handed over (ErrBusy). Requests
// that only read or that wait for a lock (flock, F_SETLKW) are interrupted inside this process, since nothing
// depends on them yet. They travel with the state, and the successor begins them again: their programs see a
// wait, no EINTR. Sessions keep their numbers, so an update is executed once. A successor whose version would
// agree on other terms with the kernel is refused before anything has happened.
//
// After a death without a handover the kernel sends the requests again that the dead process had read, from
// Linux 6.9 on. An older kernel does not, and such requests would hang: the mount is given up. Holder says
// what programs see.
//
// # Serving a mount to oneself
//
// Each close asks the mount, since locks end then. A process that serves a mount should therefore not start
// others while it has files of that mount open: the child closes them before it runs, until then a thread of
// the Go runtime stands still, and a collection of garbage that begins just then waits for it, and the close
// for the collection. A Holder must have no file of the mount open at all: the daemon that it starts could
// not begin.
package serve
