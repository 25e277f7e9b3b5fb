// Package mover moves subtrees to the partitions of their placements, in the background and with one ordered
// command for each inode. It works on the tasks of the partitions (meta.Task). `globalfs place`
// makes a task, unless the user declines, and so does a rename of a directory into another partition.
//
// # Work on a task
//
// The mover walks the subtree and first moves the directories only: a new inode in a moved directory is made
// in the right place at once, so that the remaining work does not grow. Then it walks again and moves all
// inodes that are not at the target, until a walk finds nothing to move; then the task is done. A moved inode
// keeps its number, its names and its open handles. Before a file moves, its blocks are copied to the store
// of the target partition.
//
// The mover leaves out the roots of partitions, and directories with a placement of their own, each with all
// contents. Children of a directory with a spread go to the partitions of new children.
//
// A task that a rename left ends at once if its directory has since been placed or renamed elsewhere, or if
// the walk of another task finds it inside its subtree: the outer task does the work, with its own target.
//
// # Guarantees
//
//   - The subtree can be read and written all the time. An update of an inode waits while the inode moves.
//   - Nothing is lost if the mover stops anywhere: moves are ordered commands, and a repeated move does
//     nothing. Two movers on the same task waste work and do no harm.
//   - An inode that cannot be moved at all (for example a directory with too many entries for one command)
//     stays in its partition, with all its content, and is logged once. The contents of such a directory move
//     nevertheless.
//   - A file with names in two subtrees with different targets ends in one of them.
//
// # Limits
//
// A walk may see directories that are renamed in and out of the subtree twice or not at all: directories from
// another partition bring their own task, and directories that leave may have moved before.
package mover
