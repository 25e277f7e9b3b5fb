package wan

import (
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// headerSize is the size of struct virtio_net_hdr, which a TUN puts before each packet: flags, kind of
// offloading, length of all headers, size of a segment's payload, start of the checksummed bytes, and offset
// of the checksum from there. The last four have 16 bits in the machine's byte order.
const headerSize = 10

const (
	flagFIN, flagPSH, flagCWR = 0x01, 0x08, 0x80 // of TCP
	protocolTCP               = 6
)

// segments cuts a frame with a TCP super-packet into frames with the packets that a wire would carry. Each
// frame is valid until the next. It yields any other frame unchanged. The checksums of TCP stay partial, as
// received: the receiving kernel trusts them.
func segments(frame, scratch []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		ip, tcp, ok := superPacket(frame)
		if !ok {
			yield(frame)
			return
		}
		packet := frame[headerSize:]
		payload := packet[ip+tcp:]
		size := int(binary.NativeEndian.Uint16(frame[4:]))
		for i := 0; i*size < len(payload); i++ {
			part := payload[i*size : min((i+1)*size, len(payload))]
			segment := append(append(append(scratch[:0], frame[:headerSize]...), packet[:ip+tcp]...), part...)
			segment[1] = unix.VIRTIO_NET_HDR_GSO_NONE
			binary.NativeEndian.PutUint16(segment[4:], 0)
			number(segment[headerSize:], ip, i, i*size)
			if flags := &segment[headerSize+ip+13]; (i+1)*size < len(payload) {
				*flags &^= flagFIN | flagPSH // only in the last segment
			}
			if i > 0 {
				segment[headerSize+ip+13] &^= flagCWR // only in the first segment
			}
			if !yield(segment) {
				return
			}
		}
	}
}

// superPacket returns the lengths of the headers of IP and TCP. ok: the frame has a TCP packet that must be
// cut.
func superPacket(frame []byte) (ip, tcp int, ok bool) {
	if len(frame) < headerSize+40 || frame[1]&^unix.VIRTIO_NET_HDR_GSO_ECN != unix.VIRTIO_NET_HDR_GSO_TCPV4 || binary.NativeEndian.Uint16(frame[4:]) == 0 {
		return 0, 0, false
	}
	packet := frame[headerSize:]
	ip = int(packet[0]&15) * 4
	if packet[0]>>4 != 4 || packet[9] != protocolTCP || ip < 20 || len(packet) < ip+20 {
		return 0, 0, false
	}
	tcp = int(packet[ip+12]>>4) * 4
	return ip, tcp, tcp >= 20 && len(packet) > ip+tcp
}

// number changes a copy of a super-packet's headers to those of its i-th segment, with its payload at an
// offset.
func number(packet []byte, ip, i, offset int) {
	be := binary.BigEndian
	be.PutUint16(packet[2:], uint16(len(packet)))
	be.PutUint16(packet[4:], be.Uint16(packet[4:])+uint16(i))
	be.PutUint16(packet[10:], 0)
	be.PutUint16(packet[10:], ^sum(packet[:ip], 0))
	be.PutUint32(packet[ip+4:], be.Uint32(packet[ip+4:])+uint32(offset))
	be.PutUint16(packet[ip+16:], sum(packet[12:20], uint32(protocolTCP+len(packet)-ip))) // of the pseudo-header: addresses, protocol, length
}

// sum returns the sum of the internet checksum (RFC 1071) of an even number of bytes and of an earlier sum s.
func sum(b []byte, s uint32) uint16 {
	for ; len(b) > 0; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}
