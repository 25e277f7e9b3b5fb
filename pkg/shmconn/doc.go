// Package shmconn has net.Conns between two processes of one host whose bytes travel through memory that both
// processes map. A write copies its bytes into a ring, a read copies them out. No byte passes the kernel, and
// a side that is awake needs no system call.
//
// # How a connection begins
//
// The processes connect over a Unix socket and authenticate each other there, in any way. Then one of them
// calls Offer and the other Accept: the memory and a second socket travel over the first one (SCM_RIGHTS).
// The Conn owns both sockets. A process between the two ends could take the place of one of them after the
// authentication; User, compared with the user that the authenticated peer states, excludes it.
//
// # How a side waits
//
// No side spins: with more runnable threads than processors a spinning reader takes the time that its peer
// needs (bench/results/local.txt). A side that sleeps sets a word in the memory and looks into the ring once
// more; a side that publishes looks at the word afterwards, and rings if it is set. The bell of the first
// socket reports new bytes, the bell of the second reports room. A bell is one byte, and rings without
// waiting. The bytes of the first socket are read seldom, because Go's poller reports each arrival anyway,
// and a read would wake the peer's poller, too. The second socket is read always, so that the end of the peer
// is noticed at once, even by kill -9.
//
// # Trust
//
// The memory is as untrusted as a socket: the peer may change anything in it at any time. Package ring
// believes only possible cursors, bytes are copied before anybody looks at them, and the memory is sealed,
// so that no access to it can fail. Each side has its own descriptions of the sockets: the peer cannot change
// their flags. A peer that does not read costs its ring, and the writer waits.
package shmconn
