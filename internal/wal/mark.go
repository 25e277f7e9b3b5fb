package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	markName  = "MARK"
	markMagic = "GFSMARK1"
	markSize  = 8 + 5*8 + 4
)

// mark names the last acknowledged batch of a log (package comment, Rot).
type mark struct {
	salt    uint64 // of the segment
	segment uint64
	synced  uint64 // the last batch that survives a loss of power
	written uint64 // the last batch that survives the death of the process
	boot    uint64 // identity of the kernel that wrote the batches; 0: unknown
}

func (m *mark) append(b []byte) []byte {
	b = append(b, markMagic...)
	for _, n := range [...]uint64{m.salt, m.segment, m.synced, m.written, m.boot} {
		b = order.AppendUint64(b, n)
	}
	return order.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark reads a mark. An incomplete or damaged one counts as none.
func decodeMark(b []byte) *mark {
	const sum = markSize - 4
	if len(b) != markSize || string(b[:8]) != markMagic || order.Uint32(b[sum:]) != crc32.Checksum(b[:sum], castagnoli) {
		return nil
	}
	at := func(i int) uint64 { return order.Uint64(b[8*(i+1):]) }
	return &mark{salt: at(0), segment: at(1), synced: at(2), written: at(3), boot: at(4)}
}

// bootOf makes a number of the identity of a kernel; 0: it is unknown.
func bootOf(id string) uint64 {
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return h.Sum64() | 1
}

// least returns the last batch of the segment that the log must have, if boot is the identity of the kernel.
func (m *mark) least(boot uint64) uint64 {
	if boot != 0 && boot == m.boot {
		return max(m.synced, m.written)
	}
	return m.synced
}

// openMark opens the file of the mark, and reads it; nil: there is no mark.
func openMark(dir string) (*os.File, *mark, error) {
	path := filepath.Join(dir, markName)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil && len(b) > markSize {
		b = b[:markSize]
		err = f.Truncate(markSize)
	}
	return f, decodeMark(b), err
}

// check fails if a segment, which was read up to its last whole batch, lacks acknowledged batches.
func (m *mark) check(r *reader, boot uint64) error {
	path := r.file.Name()
	switch {
	// A later checkpoint has replaced the segment of the mark.
	case m == nil || r.header.number > m.segment:
		return nil
	case r.header.number < m.segment:
		return missed(path, 0, "the log went on in segment %d, which is damaged or missing", m.segment)
	case r.header.salt != m.salt:
		return missed(path, 0, "it is not the segment %d that was acknowledged", m.segment)
	case r.number < m.least(boot):
		return missed(path, r.offset, "batch %d is damaged or missing, and all up to batch %d were acknowledged", r.number+1, m.least(boot))
	}
	return nil
}

// missed is the error for acknowledged batches that are missing.
func missed(path string, offset int64, format string, args ...any) error {
	remedy := fmt.Sprintf("; if no other replica is left, remove the file %s beside it: what was acknowledged since is lost", markName)
	return &CorruptError{path, offset, fmt.Sprintf(format, args...) + remedy}
}

// note writes the mark. It is not synced: a loss of power may leave an older one, which demands less.
func (l *Log) note() error {
	m := mark{salt: l.header.salt, segment: l.header.number, synced: l.synced, written: l.number, boot: l.boot}
	if _, err := l.mark.WriteAt(m.append(l.noted[:0]), 0); err != nil {
		return fmt.Errorf("mark: %w", err)
	}
	return nil
}
