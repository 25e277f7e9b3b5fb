package wan

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	allFlags        = 0xff
	sequence uint32 = 1<<32 - 100 // wraps around
)

// super makes a frame with a TCP packet for segments of size bytes.
func super(payload []byte, size int) []byte {
	const ip, tcp = 24, 32 // with options
	frame := make([]byte, headerSize+ip+tcp, headerSize+ip+tcp+len(payload))
	frame[0], frame[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_GSO_TCPV4|unix.VIRTIO_NET_HDR_GSO_ECN
	binary.NativeEndian.PutUint16(frame[2:], ip+tcp)
	binary.NativeEndian.PutUint16(frame[4:], uint16(size))
	binary.NativeEndian.PutUint16(frame[6:], ip)
	binary.NativeEndian.PutUint16(frame[8:], 16)
	p := frame[headerSize:]
	p[0], p[8], p[9] = 4<<4|ip/4, 64, protocolTCP
	binary.BigEndian.PutUint16(p[4:], 65534) // wraps around
	copy(p[12:], []byte{10, 98, 1, 1, 10, 98, 2, 1})
	binary.BigEndian.PutUint32(p[ip+4:], sequence)
	p[ip+12], p[ip+13] = tcp/4<<4, allFlags
	return append(frame, payload...)
}

func TestSegments(t *testing.T) {
	payload := make([]byte, 5000)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	frame := super(payload, 1448)
	before := slices.Clone(frame)
	var got, flags []byte
	for segment := range segments(frame, make([]byte, largest)) {
		p := segment[headerSize:]
		require.EqualValues(t, unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, segment[0])
		require.EqualValues(t, unix.VIRTIO_NET_HDR_GSO_NONE, segment[1])
		require.EqualValues(t, len(p), binary.BigEndian.Uint16(p[2:]))
		require.EqualValues(t, uint16(65534+len(flags)), binary.BigEndian.Uint16(p[4:]))
		require.EqualValues(t, 0xffff, sum(p[:24], 0), "the checksum of IP")
		require.Equal(t, sequence+uint32(len(got)), binary.BigEndian.Uint32(p[28:]))
		require.Equal(t, sum(p[12:20], uint32(protocolTCP+len(p)-24)), binary.BigEndian.Uint16(p[40:]), "the checksum of TCP's pseudo-header")
		flags = append(flags, p[37])
		got = append(got, p[56:]...)
	}
	require.Equal(t, payload, got)
	require.Equal(t, []byte{allFlags &^ (flagFIN | flagPSH), allFlags &^ (flagFIN | flagPSH | flagCWR),
		allFlags &^ (flagFIN | flagPSH | flagCWR), allFlags &^ flagCWR}, flags)
	require.Equal(t, before, frame, "the frame belongs to the caller")
}

func FuzzSegments(f *testing.F) {
	f.Add(super(bytes.Repeat([]byte("abc"), 1000), 1000))
	f.Add(super([]byte("a"), 1))
	f.Add(super(nil, 1448))
	f.Add(super([]byte("abc"), 0))
	f.Add(super(make([]byte, 3000), 1448)[:50])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > largest {
			return
		}
		ip, tcp, ok := superPacket(frame)
		var got []byte
		for segment := range segments(frame, make([]byte, largest)) {
			if !ok {
				require.Equal(t, frame, segment)
				return
			}
			require.LessOrEqual(t, len(segment), len(frame))
			require.Equal(t, segment[headerSize+12:headerSize+20], frame[headerSize+12:headerSize+20], "addresses")
			got = append(got, segment[headerSize+ip+tcp:]...)
		}
		require.Equal(t, frame[headerSize+ip+tcp:], got)
	})
}
