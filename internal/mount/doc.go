// Package mount is the FUSE adaptor: it decodes the kernel's requests, calls the client and encodes the
// answers. It implements go-fuse's raw interface: a FUSE node id is an inode number and those are never used
// again, so there is no table of nodes. Package mountpoint puts a mount into the tree of directories; package
// serve runs it and keeps it alive while its process changes. Only this tree of packages imports go-fuse.
//
// # What a program on the mount can rely on
//
//   - Writes are kept in memory, and ordered when the file is closed or fsynced, when this mount reads or changes
//     the file in another way, before a lock is let go of, a file is renamed, or a token is given, and 0.2 s
//     after the write at the latest (package behind). close reports what could not be ordered. With
//     Config.Sync, O_SYNC, O_DSYNC or O_DIRECT each write is ordered before write(2) returns. What is ordered is
//     as durable as the servers are told (docs/durability.md).
//   - fsync, fdatasync, and write with O_SYNC or O_DSYNC return when a majority has on disk the content of the
//     file, all else that this mount has ordered, and what it has seen of the partition of the file. The kernel tells
//     a mount of this kind neither of sync(2) nor of syncfs(2): XattrSync stands for these.
//   - Who opens a file sees what was written anywhere before, as far as this client can know (close to open,
//     and causally: what this mount has seen it never unsees). While it is open, changes by other mounts show
//     after Config.CacheTime at the latest. The kernel believes names and attributes for that time, unless it
//     is told before that another mount has changed the name (notices); names that do not exist it never
//     believes.
//   - O_APPEND is atomic among all mounts: the offset is chosen where writes are ordered. What is longer
//     than 1 MiB is appended in several steps.
//   - A file that was removed can be used until the last close.
//   - Permissions are checked by the kernel (default_permissions) against attributes that may be
//     CacheTime old. Set-id bits go when others write (the kernel asks for it in the request).
//   - Locks of flock and fcntl (also of open file descriptions) hold among all mounts. They go with the last
//     close or the process, and with the mount's session if the mount dies. What was written under a lock is
//     read under it, whatever the kernel has cached.
//   - A system call that cannot be served fails within the client's timeout, mostly with ETIMEDOUT. If the
//     client is hard (client.Config.Hard) it waits until the cluster answers; a signal ends the wait: see
//     "Signals". umount -f ends all that waits.
//   - The process that serves the mount can be replaced while it is used (serve.Mount.Handover, Take):
//     requests wait meanwhile; open files and directories, locks, and waits for locks go on. If the successor
//     fails, at any step, the predecessor serves on. With a serve.Holder the mount also outlives a process
//     that dies.
//
// # What it cannot
//
//   - A lock of a directory (flock) holds among the processes of one mount only: the kernel does not ask. A
//     deadlock of processes that wait for each other's locks is not found (no EDEADLK).
//   - POSIX ACLs, security labels and file capabilities are refused with EOPNOTSUPP: a name that
//     could be set but had no effect would be worse. Only user and trusted attributes are kept.
//   - set-user-id programs and device files have no effect (nosuid, nodev), as on any FUSE mount:
//     other machines write this tree.
//   - atime does not move with reads (thesis 3.4.1, note 2).
//
// # Signals
//
// The kernel tells of every signal of a waiting process, SIGCHLD or a profiler's too. A request that reads is
// given up with EINTR when it has not been answered some time after that; programs do not expect EINTR from
// files, so mostly they must not see it. A request that changes something is never given up on a soft mount:
// it may have been ordered. On a hard one it is given up with EINTR two seconds after the signal if nothing
// was sent, and with ETIMEDOUT one timeout later otherwise. Who waits for a lock gets every signal at once,
// as on a local disk.
//
// # Stale nodes
//
// A node whose inode is gone gives ESTALE; the kernel then looks the path up again, so a program
// sees ENOENT, or what has the name now. A file is never made in a directory that is gone: the
// parent is looked at where updates are ordered.
package mount
