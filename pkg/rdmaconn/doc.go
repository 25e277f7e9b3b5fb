// Package rdmaconn is net.Conn and net.Listener on one-sided memory (package fabric), and so on the queue
// pairs of RDMA network interfaces. Any program can use it where it uses TCP, under TLS or under gRPC
// (grpc.WithContextDialer and Server.Serve):
//
//	cfg := rdmaconn.Config{Open: rdmaconn.Verbs("mlx5_0")}
//	l, err := rdmaconn.Listen(cfg, tcpListener)
//	conn, err := rdmaconn.Dial(ctx, cfg, func(ctx context.Context) (net.Conn, error) {
//		return new(net.Dialer).DialContext(ctx, "tcp", address)
//	})
//
// # Setting up
//
// A connection begins with two connections of another kind, usually TCP, that the dialling side makes. The
// fabric sets up its queues over them, one for each direction. They stay open: their end is the death of the
// peer. Each connection has an endpoint of its own, and Close frees all its memory and queue pairs. Nothing
// here authenticates the peer: put TLS on top, as over TCP.
//
// # Streams
//
// Each side has one region that the other side writes. It begins with three words: the bytes that the peer
// has written, the bytes that the peer has consumed of this side's stream (credit), and the end of the peer's
// stream plus one, or 0. Behind them is a ring of bytes. To send, a side writes bytes into the peer's ring as
// far as it has credit, and then the count, with a notification: the fabric keeps the order (Q1). Credit goes
// back when a quarter of the ring was consumed. All words of the peer are checked: a count that is impossible
// ends the connection.
//
// Write returns when the bytes are on their way, as with TCP. CloseWrite ends the own stream, and the peer
// reads io.EOF behind all bytes. After Close, the bytes that were written still arrive: the endpoint is
// closed when the fabric has completed them, or after Config.Timeout. A peer that dies, or a connection that
// fails, is an error for Read, behind the bytes that arrived before.
package rdmaconn
