package block

import "context"

// framed is a Store that takes the request of a put as a region's servers understand it. So the bytes of a block are copied and
// summed up once in a client, however many regions get them, and the cache keeps the same copy.
type framed interface {
	// putFrame is Put. Nobody changes frame any more, which newFrame made.
	putFrame(ctx context.Context, id ID, frame []byte) error
}

// newFrame gives the request that puts a block.
func newFrame(id ID, data []byte) ([]byte, error) {
	if err := checkSize(id, data); err != nil {
		return nil, err
	}
	return encodePut(opPut, id, data), nil
}

// framedData is the block in a frame.
func framedData(frame []byte) []byte { return frame[blockOffset:] }

// putFramed puts the block in a frame to any store.
func putFramed(ctx context.Context, s Store, id ID, frame []byte) error {
	if f, ok := s.(framed); ok {
		return f.putFrame(ctx, id, frame)
	}
	return s.Put(ctx, id, framedData(frame))
}
