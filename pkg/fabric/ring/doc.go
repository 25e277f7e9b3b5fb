// Package ring has streams of bytes in memory that two processes of one host share, for providers of package
// fabric and for package shmconn.
//
// A stream has a ring of bytes and two cursors: the producer stores one, the consumer the other. Each side
// keeps its own cursor in private memory and accepts of the peer's only possible values (ErrCursor). The
// cursors are sequentially consistent atomic words, so the bytes before a published cursor are visible to
// the side that has loaded it.
//
// The memory is a sealed memfd. The process that receives it by SCM_RIGHTS checks the seals and the size, so
// no access to it can fail later.
package ring
