package soft

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// region is memory that others reach.
type region struct {
	mu     sync.Mutex
	bytes  []byte
	rights map[fabric.NodeID]fabric.Rights
}

// Size implements fabric.Memory.
func (r *region) Size() int { return len(r.bytes) }

// Load implements fabric.Memory.
func (r *region) Load(at int, into []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(into, r.bytes[at:at+len(into)])
}

// Store implements fabric.Memory.
func (r *region) Store(at int, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(r.bytes[at:at+len(data)], data)
}

// write copies data of a peer, if the peer may.
func (r *region) write(peer fabric.NodeID, at int, data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rights[peer]&fabric.Writable == 0 {
		return false
	}
	copy(r.bytes[at:at+len(data)], data)
	return true
}

// read copies the content for a peer, if the peer may.
func (r *region) read(peer fabric.NodeID, at, length int) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rights[peer]&fabric.Readable == 0 {
		return nil, false
	}
	return append([]byte{}, r.bytes[at:at+length]...), true
}

// incoming is a connection that a peer has made.
type incoming struct {
	endpoint *Endpoint
	peer     fabric.NodeID
	conn     net.Conn
	done     chan struct{}
	reader   *bufio.Reader
	writer   *bufio.Writer
	refused  map[fabric.RegionID]bool // queues that execute nothing until a reset
	piece    []byte
}

const (
	headerSize = 1 + 1 + 4 + 8 + 8 + 4
	answerSize = 1 + 8 + 4
	pieceSize  = 64 << 10
	bufferSize = 64 << 10
	notifyFlag = 1
)

// Serve executes the operations of a peer until its connection ends, and closes the connection. The caller
// has made sure that it is the peer's. An earlier connection of the peer ends first.
func (e *Endpoint) Serve(peer fabric.NodeID, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	in := &incoming{
		endpoint: e, peer: peer, conn: conn, done: make(chan struct{}), refused: map[fabric.RegionID]bool{},
		reader: bufio.NewReaderSize(conn, bufferSize), writer: bufio.NewWriterSize(conn, bufferSize), piece: make([]byte, pieceSize),
	}
	if err := e.enter(in); err != nil {
		return err
	}
	defer e.leave(in)
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

// run executes operations one after the other. Answers leave when no more operation has arrived.
func (in *incoming) run() error {
	var header [headerSize]byte
	for {
		if in.reader.Buffered() < headerSize {
			if err := in.writer.Flush(); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(in.reader, header[:]); err != nil {
			return err
		}
		op, length, err := decode(&header)
		if err != nil {
			return fmt.Errorf("soft: node %d: %w", in.peer, err)
		}
		if err := in.execute(&op, length); err != nil {
			return err
		}
	}
}

// decode reads the header of an operation.
func decode(h *[headerSize]byte) (op fabric.Op, length int, err error) {
	at, size := binary.LittleEndian.Uint64(h[6:]), binary.LittleEndian.Uint64(h[14:])
	if at > fabric.MaxRegion || size > fabric.MaxRegion || fabric.Kind(h[0]) > fabric.Reset || h[1]&^notifyFlag != 0 {
		return op, 0, fmt.Errorf("operation of kind %d with flags %d covers %d bytes at %d: it is broken or of another version", h[0], h[1], size, at)
	}
	return fabric.Op{
		Kind: fabric.Kind(h[0]), Notify: h[1] == notifyFlag, Region: fabric.RegionID(binary.LittleEndian.Uint32(h[2:])),
		At: int(at), Note: binary.LittleEndian.Uint32(h[22:]),
	}, int(size), nil
}

// encode appends the header of an operation.
func encode(b []byte, op *fabric.Op) []byte {
	flags := byte(0)
	if op.Notify {
		flags = notifyFlag
	}
	b = append(b, byte(op.Kind), flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(op.Region))
	b = binary.LittleEndian.AppendUint64(b, uint64(op.At))
	b = binary.LittleEndian.AppendUint64(b, uint64(op.Size()))
	return binary.LittleEndian.AppendUint32(b, op.Note)
}

func (in *incoming) execute(op *fabric.Op, length int) error {
	switch op.Kind {
	case fabric.Reset:
		delete(in.refused, op.Region)
		return in.answer(fabric.OK, nil)
	case fabric.Read:
		status, data := in.read(op, length)
		return in.answer(status, data)
	default:
		status, err := in.write(op, length)
		if err != nil {
			return err
		}
		return in.answer(status, nil)
	}
}

// target gives the region of an operation, or nil and the reason.
func (in *incoming) target(op *fabric.Op, length int) (*region, fabric.Status) {
	if in.refused[op.Region] {
		return nil, fabric.Flushed
	}
	r := in.endpoint.region(op.Region)
	if r == nil || op.At+length > len(r.bytes) {
		in.refused[op.Region] = true
		return nil, fabric.Denied
	}
	return r, fabric.OK
}

func (in *incoming) read(op *fabric.Op, length int) (fabric.Status, []byte) {
	r, status := in.target(op, length)
	if r == nil {
		return status, nil
	}
	data, ok := r.read(in.peer, op.At, length)
	if !ok {
		in.refused[op.Region] = true
		return fabric.Denied, nil
	}
	return fabric.OK, data
}

// write consumes the data of a write, whatever becomes of it.
func (in *incoming) write(op *fabric.Op, length int) (fabric.Status, error) {
	r, status := in.target(op, length)
	if r != nil && length == 0 && !r.write(in.peer, op.At, nil) {
		status = fabric.Denied
	}
	for done := 0; done < length; {
		piece := in.piece[:min(len(in.piece), length-done)]
		if _, err := io.ReadFull(in.reader, piece); err != nil {
			return 0, err
		}
		if status == fabric.OK && !r.write(in.peer, op.At+done, piece) {
			status = fabric.Denied
		}
		done += len(piece)
	}
	switch {
	case status != fabric.OK:
		in.refused[op.Region] = true
	case op.Notify:
		in.endpoint.landed(fabric.Landed{From: in.peer, Region: op.Region, At: op.At, Length: length, Note: op.Note})
	default:
		in.endpoint.changed()
	}
	return status, nil
}

func (in *incoming) answer(status fabric.Status, data []byte) error {
	var b [answerSize]byte
	b[0] = byte(status)
	binary.LittleEndian.PutUint64(b[1:], in.endpoint.incarnation)
	binary.LittleEndian.PutUint32(b[9:], uint32(len(data)))
	if _, err := in.writer.Write(b[:]); err != nil {
		return err
	}
	_, err := in.writer.Write(data)
	return err
}
