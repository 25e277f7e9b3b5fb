// Package mover moves subtrees to the partitions where they were placed, in the background and one ordered
// command an inode (DESIGN 5.1). What is to be moved are the tasks of the partitions (meta.Task): `globalfs
// place` gives them, unless told not to, and a rename of a directory into another partition.
//
// # What it does with a task
//
// It walks the subtree, directories first: what is made in a directory that has moved is made in the
// right place at once, so that what is left to do does not grow. Then it walks again and moves all that is
// not at the target, until a walk finds nothing to move; then the task is done. An inode that moves keeps its
// number, its names and who holds it open; before a file moves, its blocks are copied to where the target
// partition keeps its own.
//
// It leaves out the roots of partitions, and directories that were placed by themselves, each with all below.
// Children of a directory that spreads them go where new ones would.
//
// A task that a rename left ends without more if its directory has since been placed or renamed elsewhere, or
// if the walk of another task finds it inside its subtree: the outer one does its work, to where the outer
// one goes.
//
// # What one can rely on
//
//   - The subtree can be read and written all the time. An update of an inode that is just moving waits for
//     that.
//   - Nothing is lost if the mover stops anywhere: moves are ordered commands, and repeating one does
//     nothing. Two movers that work on the same task waste work and do no harm.
//   - An inode that cannot be moved at all (a directory with too many entries for one command, say) stays
//     where it is, with all its content, and is told once in the log. What is in it moves all the same.
//   - A file with names in two subtrees that go two ways ends in one of them.
//
// # What one must not assume
//
// Directories that are renamed in and out of the subtree during a walk may be seen twice or not at all: those
// that come in from another partition bring their own task, and those that leave may have moved before.
package mover
