package soft

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// incoming is a connection that a peer has opened.
type incoming struct {
	endpoint  *Endpoint
	peer      fabric.NodeID
	conn      net.Conn
	done      chan struct{}
	reader    *bufio.Reader
	writer    *bufio.Writer
	execution *remote.Execution
	piece     []byte
}

// admission is the first byte of the target on a connection.
const admission = 'a'

const (
	pieceSize  = 64 << 10
	bufferSize = 64 << 10
)

// Serve executes the operations of a peer until its connection ends, and closes the connection. The caller
// has authenticated the peer. Serve first ends an earlier connection of the same peer.
func (e *Endpoint) Serve(peer fabric.NodeID, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	in := &incoming{
		endpoint: e, peer: peer, conn: conn, done: make(chan struct{}), execution: remote.NewExecution(peer, &e.regions),
		reader: bufio.NewReaderSize(conn, bufferSize), writer: bufio.NewWriterSize(conn, bufferSize), piece: make([]byte, pieceSize),
	}
	if err := e.enter(in); err != nil {
		return err
	}
	defer e.leave(in)
	// The buffered writer sends it before the target waits for the first operation.
	_ = in.writer.WriteByte(admission)
	err := in.run()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// enter waits for the end of the peer's earlier connections.
func (e *Endpoint) enter(in *incoming) error {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return errClosed
		}
		old := e.incoming[in.peer]
		if old == nil {
			e.incoming[in.peer] = in
			e.running.Add(1)
			e.mu.Unlock()
			return nil
		}
		_ = old.conn.Close()
		e.mu.Unlock()
		<-old.done
	}
}

func (e *Endpoint) leave(in *incoming) {
	e.mu.Lock()
	delete(e.incoming, in.peer)
	e.mu.Unlock()
	close(in.done)
	e.running.Done()
}

// run executes operations one after the other. It sends the answers when no further operation has arrived.
func (in *incoming) run() error {
	var header [remote.HeaderSize]byte
	for {
		if in.reader.Buffered() < remote.HeaderSize {
			if err := in.writer.Flush(); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(in.reader, header[:]); err != nil {
			return err
		}
		op, length, err := remote.Decode(&header)
		if err != nil {
			return fmt.Errorf("soft: node %d: %w", in.peer, err)
		}
		if err := in.execute(&op, length); err != nil {
			return err
		}
	}
}

func (in *incoming) execute(op *fabric.Op, length int) error {
	switch op.Kind {
	case fabric.Reset:
		in.execution.Reset(op.Region)
		return in.answer(fabric.OK, nil)
	case fabric.Read:
		status, data, err := in.execution.Read(op, length)
		if err != nil {
			return err
		}
		return in.answer(status, data)
	default:
		status, err := in.write(op, length)
		if err != nil {
			return err
		}
		return in.answer(status, nil)
	}
}

// write consumes the data of a write, also of a refused one.
func (in *incoming) write(op *fabric.Op, length int) (fabric.Status, error) {
	in.execution.Begin(op, length)
	for done := 0; done < length; {
		piece := in.piece[:min(len(in.piece), length-done)]
		if _, err := io.ReadFull(in.reader, piece); err != nil {
			return 0, err
		}
		in.execution.Piece(piece)
		done += len(piece)
	}
	status, landed, err := in.execution.End()
	if err == nil && status == fabric.OK {
		in.endpoint.written(op.Notify, landed)
	}
	return status, err
}

// written records the end of a write in a region of this node.
func (e *Endpoint) written(notify bool, landed fabric.Landed) {
	if notify {
		e.landed(landed)
	} else {
		e.changed()
	}
}

func (in *incoming) answer(status fabric.Status, data []byte) error {
	b := remote.Answer{Status: status, Incarnation: in.endpoint.incarnation, Length: len(data)}.Encode()
	if _, err := in.writer.Write(b[:]); err != nil {
		return err
	}
	_, err := in.writer.Write(data)
	return err
}
