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
// the successor's version needs other protocol terms with the kernel than those in use, the successor is
// refused before it has changed anything.
//
// After a death without a handover, Linux 6.9 and later versions repeat the requests of the dead process. An
// older kernel does not, and such requests would hang, so the mount is abandoned. The comment of Holder
// describes the effects on programs.
//
// # The log of a mount
//
// A file system may answer changes before the cluster has ordered them. It keeps these changes in a Log, in
// memory that it shares with another process, the LogHolder. If all processes of the mount have ended, the
// LogHolder sends the changes to the cluster. If the mount has a Holder, the Holder keeps the access to the
// Log for the next daemon, which then sends the changes itself. So one mechanism serves mounts with and
// without a Holder.
//
// # Processes with files on their own mount
//
// Each close of a file sends a request to the mount, because it releases locks. So a process that serves a
// mount should not start other processes while it has files of that mount open. The child process closes
// these files before it executes its program, and until then a thread of the Go runtime in the parent is
// blocked. A garbage collection that begins at this moment waits for the thread, and the close waits for the
// collection. A Holder must have no file of the mount open at all: otherwise the daemon that it starts could
// not begin.
package serve
