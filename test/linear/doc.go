// Package linear checks that mounts with --linearizable are linearizable. Workers operate on the same objects
// through several mounts: files as registers, names of a directory, and locks. The history of each object is
// checked with porcupine.
//
// The time is cut into windows, and each window has its own objects. So the first state of each object is
// known, histories are short, and an operation without an answer concerns only its window: it may take effect
// at any time after its call, or never. A check that does not end in time is a failure.
package linear
