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
// The dialling side first opens two set-up connections of another kind, usually TCP. The fabric sets up one
// queue over each of them, for one direction each. The set-up connections stay open: their end means that the
// peer has died. Each connection has an endpoint of its own, and Close frees all its memory and queue pairs.
// The package does not authenticate the peer: use TLS on top of it, as over TCP.
//
// # Streams
//
// Each side has one region that the other side writes. It begins with three words: the bytes that the peer
// has written, the bytes that the peer has consumed of this side's stream (credit), and the end of the peer's
// stream plus one, or 0. A ring of bytes follows these words. To send, a side writes bytes into the peer's
// ring as far as it has credit, and then the count, with a notification: the fabric keeps the order (Q1). The
// receiver returns credit when it has consumed a quarter of the ring. Each side validates the words of its
// peer: an impossible count ends the connection.
//
// Write returns when the bytes were posted, as with TCP. CloseWrite ends the stream to the peer, and the peer
// reads io.EOF after all bytes. After Close, the peer still receives the bytes that were written: the
// endpoint is closed when the fabric has completed them, or after Config.Timeout. After the death of the peer
// or a failure of the connection, Read returns the bytes that arrived before, and then an error.
package rdmaconn
