package transport

import (
	"context"
	"fmt"
	"testing"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/stretchr/testify/require"
)

func BenchmarkLinks(b *testing.B) {
	for _, size := range []int{100, 10_000, 1 << 20} {
		b.Run(fmt.Sprintf("Local/%d", size), func(b *testing.B) {
			l := NewLocal(nil)
			defer l.Close()
			benchmarkLinks(b, l.Endpoint(1), l.Endpoint(2), size)
		})
		b.Run(fmt.Sprintf("Framed/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, nil)
			benchmarkLinks(b, s1.Endpoint(1), s2.Endpoint(2), size)
		})
		b.Run(fmt.Sprintf("FramedTLS/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, newAuthority(b, "prod").server("n1"))
			benchmarkLinks(b, s1.Endpoint(1), s2.Endpoint(2), size)
		})
		b.Run(fmt.Sprintf("GRPC/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, nil, old...)
			benchmarkLinks(b, s1.Endpoint(1), s2.Endpoint(2), size)
		})
		b.Run(fmt.Sprintf("GRPCTLS/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, newAuthority(b, "prod").server("n1"), old...)
			benchmarkLinks(b, s1.Endpoint(1), s2.Endpoint(2), size)
		})
	}
}

// benchmarkLinks sends and receives at full speed, holding back for the window.
func benchmarkLinks(b *testing.B, from, to Endpoint, size int) {
	own, err := from.Links(1)
	require.NoError(b, err)
	peers, err := to.Links(1)
	require.NoError(b, err)
	sender, receiver := receiving(own), receiving(peers)
	frame := make([]byte, size)
	require.NoError(b, sender.Send(2, frame))
	var into [64]multicast.Frame
	_, err = sender.Receive(b.Context(), into[:])
	require.NoError(b, err)
	sender.Accept(2)
	receive := func() (frames int) {
		n, err := receiver.Receive(b.Context(), into[:])
		require.NoError(b, err)
		for _, f := range into[:n] {
			if f.Data != nil {
				frames++
			}
		}
		return frames
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	inFlight := 0
	for b.Loop() {
		require.NoError(b, sender.Send(2, frame))
		for inFlight++; inFlight*(size+frameOverhead) > Window/4; {
			inFlight -= receive()
		}
	}
	for inFlight > 0 {
		inFlight -= receive()
	}
}

func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		bench := func(b *testing.B, from, to Endpoint) {
			to.Serve(func(_ context.Context, request []byte) ([]byte, error) { return request, nil })
			request := make([]byte, size)
			b.SetBytes(2 * int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, err := from.Call(b.Context(), 2, request)
				require.NoError(b, err)
			}
		}
		b.Run(fmt.Sprintf("Local/%d", size), func(b *testing.B) {
			l := NewLocal(nil)
			defer l.Close()
			bench(b, l.Endpoint(1), l.Endpoint(2))
		})
		b.Run(fmt.Sprintf("Framed/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, nil)
			bench(b, s1.Endpoint(1), s2.Endpoint(2))
		})
		b.Run(fmt.Sprintf("FramedTLS/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, newAuthority(b, "prod").server("n1"))
			bench(b, s1.Endpoint(1), s2.Endpoint(2))
		})
		b.Run(fmt.Sprintf("GRPC/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, nil, old...)
			bench(b, s1.Endpoint(1), s2.Endpoint(2))
		})
		b.Run(fmt.Sprintf("GRPCTLS/%d", size), func(b *testing.B) {
			s1, s2 := pairOnTCP(b, newAuthority(b, "prod").server("n1"), old...)
			bench(b, s1.Endpoint(1), s2.Endpoint(2))
		})
	}
}
