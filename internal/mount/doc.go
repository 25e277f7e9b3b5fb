// Package mount is the FUSE adaptor: it decodes the kernel's requests, calls the client and encodes the
// answers. It implements go-fuse's raw interface: a FUSE node id is an inode number and those are never used
// again, so there is no table of nodes. Package mountpoint puts a mount into the tree of directories; package
// serve runs it and keeps it alive while its process changes. Only this tree of packages imports go-fuse.
//
// # What a program on the mount can rely on
//
//   - Writes are ordered and durable before write(2) returns; there is no write-back cache. fsync and
//     close have nothing left to do beyond the pages of shared mappings, which the kernel writes by itself.
//   - Who opens a file sees what was written anywhere before, as far as this client can know (close to open,
//     and causally: what this mount has seen it never unsees). While it is open, changes by other mounts show
//     after Config.CacheTime at the latest. The kernel believes names and attributes for that time; names
//     that do not exist it never believes.
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
