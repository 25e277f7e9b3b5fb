package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

const (
	copySuffix = ".copy"
	// DamagedSuffix follows the name of a file that keeps the content of a damaged file, see ReadCopied.
	DamagedSuffix = ".damaged"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// copied is the content of a copy: a line with checksums, and the content of the file.
type copied struct {
	content []byte
	before  uint32 // checksum of the previous content of the file; 0: unknown
}

func (c *copied) encode() []byte {
	b := fmt.Appendf(nil, "%08x\n%s", c.before, c.content)
	return append(fmt.Appendf(nil, "globalfs-copy 1 %08x ", sum(b)), b...)
}

// readCopy reads the copy of a file; nil: there is none, or it is damaged.
func readCopy(path string) *copied {
	b, err := os.ReadFile(path + copySuffix)
	if err != nil {
		return nil
	}
	var crc uint32
	var c copied
	head, content, _ := bytes.Cut(b, []byte("\n"))
	if n, err := fmt.Sscanf(string(head), "globalfs-copy 1 %08x %08x", &crc, &c.before); n != 2 || err != nil {
		return nil
	}
	if c.content = content; !bytes.Equal(c.encode(), b) {
		return nil
	}
	return &c
}

// WriteCopied is like WriteFile, and also writes a copy of the file beside it, from which ReadCopied mends a
// damaged one. The copy is written first: it is never older than the file.
func WriteCopied(path string, content []byte) error {
	c := copied{content: content}
	if was, err := os.ReadFile(path); err == nil {
		c.before = sum(was)
	}
	if err := WriteFile(path+copySuffix, c.encode()); err != nil {
		return err
	}
	return WriteFile(path, content)
}

// ReadCopied reads a file that WriteCopied has written. rank reads the content of a file: it returns an error
// if the content is invalid, and a newer content has a higher rank. If the file and its copy differ, the copy
// counts: it has a checksum. The file counts if it has a higher rank, as somebody may have written it without
// the copy, and if the copy is damaged. So a number that ranks by itself is never lower than the number that
// was written last.
//
// A damaged or missing file or copy is written again. The content of a damaged file stays beside it, under
// its name with DamagedSuffix. The error for a file without a good copy is that of os.ReadFile or of rank.
func ReadCopied(path string, rank func(content []byte) (uint64, error)) ([]byte, error) {
	content, err := os.ReadFile(path)
	var own uint64
	if err == nil {
		own, err = rank(content)
	}
	c := readCopy(path)
	if c == nil {
		if err == nil {
			err = WriteFile(path+copySuffix, (&copied{content: content}).encode())
		}
		return content, err
	}
	of, bad := rank(c.content)
	switch {
	case err == nil && bytes.Equal(content, c.content):
		return content, nil
	case bad != nil && err == nil || err == nil && own > of:
		return content, WriteCopied(path, content)
	case bad != nil:
		return content, err
	}
	if !errors.Is(err, fs.ErrNotExist) && sum(content) != c.before { // else a crash came between both writes
		if err := WriteFile(path+DamagedSuffix, content); err != nil {
			return nil, err
		}
	}
	return c.content, WriteFile(path, c.content)
}
