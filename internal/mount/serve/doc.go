// Package serve runs a FUSE mount. It reads the kernel's requests, passes them to a FileSystem, and writes
// the answers. It keeps the mount alive while its process changes:
//
//	daemon      the process that serves the mount
//	successor   another process, to which the daemon hands the mount over (Handover, Take)
//	Holder      a parent process that starts another daemon when the daemon dies
//	LogHolder   a process that orders the answered changes if all daemons have ended
//
// The decoder and the encoder are those of go-fuse. Its loop is not used, because it can neither stop before
// the mount ends nor leave a request to another process.
//
// # Handover
//
// Reading stops between two requests: no request is lost or cut off. The predecessor then waits for the
// requests that change something. If the cluster does not answer them, the mount is not handed over
// (ErrBusy). Requests that only read or that wait for a lock (flock, F_SETLKW) are interrupted inside the
// process, since nothing depends on them yet. They travel with the state, and the successor begins them
// again: their programs see a wait, no EINTR. Sessions keep their numbers, so an update is executed once. If
// the version of a successor would agree on other terms with the kernel, the successor is refused before it
// has changed anything.
//
// After a death without a handover the kernel sends the requests of the dead process again, from Linux 6.9
// on. An older kernel does not, and such requests would hang: the mount is abandoned. The effects on programs
// are described at Holder.
//
// # The log of a mount
//
// A file system that answers changes before the cluster has ordered them keeps them in a Log, in memory that
// another process has, too: the LogHolder, which orders them if the processes of the mount have ended. A
// Holder keeps the access to it for the next daemon, which then orders the changes itself. So there is one
// mechanism for the death of a process with and without a Holder.
//
// # Serving a mount to oneself
//
// Each close sends a request to the mount, since locks end then. So a process that serves a mount should not
// start others while it has files of that mount open. The child closes these files before it runs its
// program, and until then a thread of the Go runtime stands still. A garbage collection that begins in this
// moment waits for the thread, and the close waits for the collection. A Holder must have no file of the
// mount open at all: the daemon that it starts could not begin.
package serve
