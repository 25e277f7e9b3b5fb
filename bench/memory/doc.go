// Package memory opens nodes of package fabric in real processes of one host, for the laboratory. A directory
// that the processes share has the certificates of the nodes and the addresses at which nodes listen.
//
// Nodes authenticate each other by their certificates, with every provider: the number of a node is in its
// name. With provider soft, TLS over TCP carries all operations. With shm, the handshake is on a Unix socket,
// and memory carries the operations. With verbs, TLS over TCP sets up the queue pairs.
package memory
