// Package shmconn has net.Conns between two processes of one host whose bytes travel through memory that both
// processes map. A write copies its bytes into a ring, and a read copies them from the ring. No byte passes
// through the kernel, and while both sides are awake, they need no system calls.
//
// # How a connection begins
//
// The processes connect over a Unix socket and authenticate each other there, in any way. Then one of them
// calls Offer and the other Accept: the memory and a second socket travel over the first one (SCM_RIGHTS).
// The Conn owns both sockets. A process that relays the authentication could take the place of one end after
// it. To exclude this, compare the result of User with the user that the authenticated peer states.
//
// # How a side waits
//
// No side spins: with more runnable threads than processors, a spinning reader uses CPU time that its peer
// needs (bench/results/local.txt). Before a side sleeps, it sets a word in the memory and reads the ring once
// more. After a side has published bytes, it reads this word, and sends a bell if the word is set. The bell
// of the first socket reports new bytes, the bell of the second reports room. A bell is one byte, and the
// sender does not block. The bells of the first socket are read seldom, because Go's poller reports each
// arrival anyway, and a read would also wake the peer's poller. A goroutine always reads the second socket,
// so that the end of the peer is noticed at once, also after kill -9.
//
// # Trust
//
// The memory is as untrusted as a socket: the peer may change anything in it at any time. Package ring
// accepts only possible cursors, bytes are copied before they are interpreted, and the memory is sealed, so
// that no access to it can fail. Each side has its own file descriptions of the sockets: the peer cannot
// change their flags. If a peer does not read, the writer waits, and no more memory than the ring is used.
package shmconn
