// Package mount is the FUSE adaptor of the file system: it decodes requests of the kernel, calls package
// client, and encodes the answers.
//
//	program --system call--> kernel --request--> package serve --> fileSystem, here --> package client
//
// It implements the raw interface of go-fuse. A FUSE node id is an inode number. Inode numbers are never used
// again, so there is no table of nodes. Package mountpoint mounts and unmounts directories. Package serve
// runs the loop that reads requests, and hands the mount over when its process is replaced. Package behind
// collects writes. Only this tree of packages imports go-fuse.
//
// # Guarantees for programs
//
//   - Writes are kept in memory. They are ordered when the file is closed or fsynced, when this mount reads
//     or changes the file in another way, before the release of a lock, a rename of the file or a causality
//     token, and 0.2 s after the write at the latest (package behind). close reports an error for content
//     that could not be ordered. With Config.Sync, O_SYNC, O_DSYNC or O_DIRECT each write is ordered before
//     write(2) returns. Ordered content is as durable as the configuration of the servers makes it
//     (docs/durability.md).
//   - fsync, fdatasync, and write with O_SYNC or O_DSYNC return when a majority has on disk the content of
//     the file, all other ordered updates of this mount, and the updates of the file's partition that the
//     mount has seen. Other partitions that do not answer are left out after 5 s. The kernel informs a mount
//     of this kind neither of sync(2) nor of syncfs(2): XattrSync replaces these.
//   - A program that opens a file sees all earlier writes of all mounts, as far as this client can know them
//     (close to open, and causally: this mount never returns to a state before one that it has seen). While
//     the file is open, changes by other mounts show after Config.CacheTime at the latest, and within
//     milliseconds if a replica of the region reports them: the mount notifies the kernel of changed names
//     and attributes (notices). The kernel caches names for Config.CacheTime, and attributes for trustTime if
//     it will be notified of their changes, otherwise for Config.CacheTime. It never caches absent names.
//   - O_APPEND is atomic among all mounts: the offset is chosen where writes are ordered. Data longer than 1
//     MiB is appended in several steps.
//   - A file that was removed can be used until the last close.
//   - The kernel checks permissions (default_permissions) with the cached attributes. A write by another user
//     removes the set-id bits: the kernel requests this with the write.
//   - Locks of flock and fcntl (also of open file descriptions) hold among all mounts. They end with the last
//     close or the process, and with the mount's session if the mount dies. A read under a lock sees all
//     writes under the lock, whatever the kernel has cached.
//   - A system call that cannot be served fails within the client's timeout, mostly with ETIMEDOUT. If the
//     client is hard (client.Config.Hard), the call waits until the cluster answers; a signal ends the wait:
//     see "Signals". umount -f ends all waits.
//   - The process that serves the mount can be replaced while the mount is used (serve.Mount.Handover, Take).
//     Requests wait meanwhile; open files and directories, locks, and waits for locks continue. If the
//     successor fails, at any step, the predecessor continues to serve. With a serve.Holder the mount also
//     survives the death of a process.
//
// # Limits
//
//   - A lock of a directory (flock) holds among the processes of one mount only: the kernel does not send it
//     to the mount. A deadlock of processes that wait for each other's locks is not found (no EDEADLK).
//   - POSIX ACLs, security labels and file capabilities are refused with EOPNOTSUPP: a name that could be set
//     but had no effect would be worse. Only user and trusted attributes are stored.
//   - set-user-id programs and device files have no effect unless root mounts with the options suid and dev:
//     other machines write this tree.
//   - atime does not move with reads (thesis 3.4.1, note 2).
//
// # Signals
//
// The kernel informs the mount of the first signal of a waiting process, also of SIGCHLD or a profiler's
// signals. Programs do not expect EINTR from files: a database panics if fdatasync returns it. So a request
// that only reads ends with EINTR only if a pending signal ends the process (fateOf), two seconds after it.
// On a soft mount a request that changes something never ends early: it may have been ordered. On a hard
// mount it ends with EINTR two seconds after such a signal if nothing was sent, and with ETIMEDOUT one
// timeout later otherwise. A process in another PID namespace cannot be seen: on a soft mount it waits for
// the timeout, on a hard mount each signal counts. A process that waits for a lock gets every signal at
// once, as on a local disk.
//
// # Stale nodes
//
// A request for a node without its inode returns ESTALE; the kernel then looks the path up again, so a
// program sees ENOENT, or the inode that has the name now. A file is never made in a removed directory: the
// check of the parent is part of the ordered update.
package mount
