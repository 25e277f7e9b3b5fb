package transport

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// Protocol is the kind of connections that the program at an address accepts.
type Protocol int

// The protocols that Speaks distinguishes.
const (
	Unknown Protocol = iota // no answer, or the answer of another program
	Plain                   // HTTP/2 without encryption: a cluster without certificates
	TLS
)

// speaksTime bounds one attempt of Speaks.
const speaksTime = 2 * time.Second

// Speaks detects the protocol of a server, to explain the failure of a connection of the other kind.
func Speaks(ctx context.Context, address string) Protocol {
	ctx, cancel := context.WithTimeout(ctx, speaksTime)
	defer cancel()
	switch {
	case speaksTLS(ctx, address):
		return TLS
	case speaksPlain(ctx, address):
		return Plain
	}
	return Unknown
}

// speaksTLS reports whether a server answers a TLS ClientHello with TLS: a handshake, or an alert.
func speaksTLS(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // only the answer counts
	// The certificate is not verified: nothing is sent over this connection.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(ctx)
	var alert tls.AlertError
	var remote *net.OpError
	return err == nil || errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error"
}

const (
	http2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
)

// speaksPlain reports whether a server answers the preface of HTTP/2 with settings.
func speaksPlain(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // only the answer counts
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, http2Preface+emptySettings); err != nil {
		return false
	}
	var header [9]byte // length of 3 bytes, type, flags, stream
	_, err = io.ReadFull(conn, header[:])
	const settings = 4
	return err == nil && header[3] == settings && binary.BigEndian.Uint32(header[5:]) == 0
}
