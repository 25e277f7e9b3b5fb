package interop

import (
	"context"
	"net"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/rdmaconn"
)

// open opens endpoints on the device RDMA_DEVICE, or without RDMA.
func open() rdmaconn.Open {
	if device := os.Getenv("RDMA_DEVICE"); device != "" {
		return rdmaconn.Verbs(device)
	}
	return func(self fabric.NodeID, dial func(context.Context, fabric.NodeID) (net.Conn, error)) (rdmaconn.Endpoint, error) {
		return soft.New(soft.Config{Self: self, Dial: dial})
	}
}

// TestInterop runs the test cases of grpc-go that need no credentials of a cloud. A case that fails ends the
// program.
func TestInterop(t *testing.T) {
	cfg := rdmaconn.Config{Open: open()}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := rdmaconn.Listen(cfg, inner)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	dialer := func(ctx context.Context, address string) (net.Conn, error) {
		return rdmaconn.Dial(ctx, cfg, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		})
	}
	cc, err := grpc.NewClient("passthrough:///"+inner.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialer))
	if err != nil {
		t.Fatal(err)
	}
	client := testgrpc.NewTestServiceClient(cc)
	for name, one := range map[string]func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
		"empty_unary":                 interop.DoEmptyUnaryCall,
		"large_unary":                 interop.DoLargeUnaryCall,
		"client_streaming":            interop.DoClientStreaming,
		"server_streaming":            interop.DoServerStreaming,
		"ping_pong":                   interop.DoPingPong,
		"empty_stream":                interop.DoEmptyStream,
		"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
		"cancel_after_begin":          interop.DoCancelAfterBegin,
		"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
		"custom_metadata":             interop.DoCustomMetadata,
		"status_code_and_message":     interop.DoStatusCodeAndMessage,
		"special_status_message":      interop.DoSpecialStatusMessage,
	} {
		t.Run(name, func(t *testing.T) { one(t.Context(), client) })
	}
	t.Run("unimplemented_method", func(t *testing.T) { interop.DoUnimplementedMethod(t.Context(), cc) })
	t.Run("unimplemented_service", func(t *testing.T) {
		interop.DoUnimplementedService(t.Context(), testgrpc.NewUnimplementedServiceClient(cc))
	})
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	server.GracefulStop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
