// Package metatest is a reference model of the semantics that internal/meta promises, and tests that drive
// both with the same random commands: one partition (Run), and several that make one tree (RunPartitions).
// The model is plain maps and byte slices: slow, small, and written without a look at how meta does it.
package metatest
