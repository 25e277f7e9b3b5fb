package objects

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"strings"

	"github.com/globalfs/globalfs/internal/block"
)

// headerSize is the number of bytes in an object before the block.
const headerSize = 8

// magic begins each object.
const magic = "GBO1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header returns the header of an object with a block of this checksum.
func header(sum uint32) (h [headerSize]byte) {
	copy(h[:], magic)
	binary.LittleEndian.PutUint32(h[len(magic):], sum)
	return h
}

// object is the content of an object for the library, which reads it any number of times from the beginning,
// without a copy of data.
type object struct {
	header [headerSize]byte
	data   []byte
	io.Reader
}

func newObject(b *block.Block) *object {
	o := &object{header: header(b.Sum), data: b.Data}
	o.rewind()
	return o
}

func (o *object) rewind() {
	o.Reader = io.MultiReader(bytes.NewReader(o.header[:]), bytes.NewReader(o.data))
}

// Seek returns to the beginning; no caller needs more.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errSeek
	}
	o.rewind()
	return 0, nil
}

// sum returns the CRC32C of the whole object, in the byte order of S3.
func (o *object) sum() []byte {
	sum := crc32.Update(crc32.Checksum(o.header[:], castagnoli), castagnoli, o.data)
	return binary.BigEndian.AppendUint32(nil, sum)
}

// key returns the key of a block's object.
func (s *Store) key(id block.ID) string { return s.prefix + hex.EncodeToString(id[:]) }

// id is the inverse of key. ok is false for other objects under the prefix.
func (s *Store) id(key string) (id block.ID, ok bool) {
	digits, ok := strings.CutPrefix(key, s.prefix)
	if !ok || len(digits) != hex.EncodedLen(len(id)) || strings.ToLower(digits) != digits {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil
}
