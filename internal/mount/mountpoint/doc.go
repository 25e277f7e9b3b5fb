// Package mountpoint puts a FUSE file system into the machine's tree of directories and takes it out again:
// by mount(2) and umount(2) as root, by fusermount3 for other users. It checks beforehand that a mount is
// possible, and its errors name the remedy. It knows nothing of the requests that a mount serves.
package mountpoint
