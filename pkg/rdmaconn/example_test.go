package rdmaconn_test

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/rdmaconn"
)

// An echo server and its client. With Open: rdmaconn.Verbs(""), bytes travel over RDMA.
func Example() {
	cfg := rdmaconn.Config{
		Open: func(self fabric.NodeID, dial func(context.Context, fabric.NodeID) (net.Conn, error)) (rdmaconn.Endpoint, error) {
			return soft.New(soft.Config{Self: self, Dial: dial})
		},
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	l, err := rdmaconn.Listen(cfg, inner)
	if err != nil {
		panic(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(conn, conn)
		conn.Close()
	}()
	conn, err := rdmaconn.Dial(context.Background(), cfg, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", inner.Addr().String())
	})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "over one-sided writes")
	if err := conn.CloseWrite(); err != nil {
		panic(err)
	}
	answer, err := io.ReadAll(conn)
	fmt.Println(string(answer), err)
	// Output: over one-sided writes <nil>
}
