// Package metatest is a reference model of the semantics that internal/meta promises, and tests that drive
// both with the same random commands: one partition (Run), and several that make one tree (RunPartitions).
// The model consists of maps and byte slices. It is slow and small, and was written independently of the code
// of meta.
package metatest
