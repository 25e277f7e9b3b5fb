// Package metatest is a reference model of the semantics that internal/meta promises, and a test that drives both
// with the same random commands. The model is plain maps and byte slices: slow,
// small, and written without a look at how meta does it.
package metatest
