package mount

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// HoldersFunc returns, for each block of a partition, the names of the servers with a copy. Its error names
// the servers that did not answer.
type HoldersFunc func(ctx context.Context, partition uint16, ids []posix.BlockID) ([][]string, error)

// Info is a Where, with the content of a file.
type Info struct {
	Where
	Mode    uint32   `json:"mode"` // type and permissions, as st_mode
	Size    uint64   `json:"size"`
	Used    uint64   `json:"used"` // bytes, without holes
	Links   uint32   `json:"links"`
	Copies  int      `json:"copies"`            // copies of each block in each region of the partition
	Content *Content `json:"content,omitempty"` // of a regular file
	// Holding describes the whole mount; nil: it holds no directories.
	Holding *client.Holding `json:"holding,omitempty"`
}

// Content describes the places of the bytes of a file.
type Content struct {
	Extents  uint64 `json:"extents"`
	Blocks   uint64 `json:"blocks"`   // number of extents in blocks
	Inline   uint64 `json:"inline"`   // bytes in the metadata
	Holes    uint64 `json:"holes"`    // bytes
	Complete bool   `json:"complete"` // false: some extents of the file were not counted
	// First are the first extents; all extents if the file has no more.
	First []Extent `json:"first_extents"`
	// Unknown is the reason why some holders are not known; empty: all are known.
	Unknown string `json:"unknown_holders,omitempty"`
}

// Extent is a range of a file.
type Extent struct {
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
	Block  string `json:"block,omitempty"` // empty: the metadata has the bytes
	Skip   uint32 `json:"skip,omitempty"`  // bytes of the block before the range
	// Holders are the servers with a copy of the block.
	Holders []string `json:"holders,omitempty"`
}

// Bounds of an Info.
const (
	maxInfoExtents  = 64              // that are listed
	maxInfoQueries  = 256             // of the extents that are counted
	holdersPatience = 5 * time.Second // for the answers of storage servers
)

// inspector collects information about single inodes.
type inspector struct{ *fileSystem }

// info returns the Info of an inode.
func (f inspector) info(ctx context.Context, i posix.Ino) (*Info, error) {
	w, err := f.where(ctx, i)
	if err != nil {
		return nil, err
	}
	info := &Info{Where: *w, Copies: f.client.Cluster().Copies}
	a, err := f.client.GetAttr(ctx, i)
	if err != nil {
		return nil, err
	}
	info.Mode, info.Size, info.Used, info.Links = uint32(a.Mode), a.Size, a.Bytes, a.Nlink
	if f.client.Delegates() {
		h := f.client.Holding()
		info.Holding = &h
	}
	if a.Mode.IsRegular() {
		info.Content, err = f.content(ctx, i)
	}
	return info, err
}

// content counts the extents of a file, and looks for the copies of the first blocks.
func (f inspector) content(ctx context.Context, i posix.Ino) (*Content, error) {
	c := &Content{First: []Extent{}}
	var first []meta.Extent
	var last client.Layout
	at := uint64(0)
	for range maxInfoQueries {
		l, err := f.client.Layout(ctx, i, at)
		if err != nil {
			return nil, err
		}
		c.add(at, &l)
		first = append(first, l.Extents[:min(len(l.Extents), maxInfoExtents-len(first))]...)
		last = l
		if c.Complete = l.End >= l.Attr.Size; c.Complete || l.End <= at {
			break
		}
		at = l.End
	}
	f.holdersOf(ctx, c, last.Partition, first)
	return c, nil
}

// add counts the extents of a part of a file.
func (c *Content) add(from uint64, l *client.Layout) {
	at := from
	for _, e := range l.Extents {
		c.Extents++
		if e.Offset > at {
			c.Holes += e.Offset - at
		}
		if at = e.Offset + e.Length; e.Data == nil {
			c.Blocks++
		} else {
			c.Inline += e.Length
		}
	}
	if l.End > at {
		c.Holes += l.End - at
	}
}

// holdersOf lists extents with the servers that have copies of their blocks.
func (f inspector) holdersOf(ctx context.Context, c *Content, partition uint16, first []meta.Extent) {
	var ids []posix.BlockID
	for _, e := range first {
		if e.Data == nil {
			ids = append(ids, e.Block)
		}
	}
	holders := make([][]string, len(ids))
	switch {
	case f.holders == nil:
		c.Unknown = "this mount does not ask the storage servers"
	case len(ids) > 0:
		asking, cancel := context.WithTimeout(ctx, holdersPatience)
		defer cancel()
		var err error
		if holders, err = f.holders(asking, partition, ids); err != nil {
			c.Unknown = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	next := 0
	for _, e := range first {
		one := Extent{Offset: e.Offset, Length: e.Length}
		if e.Data == nil {
			one.Block, one.Skip, one.Holders = e.Block.String(), e.Skip, holders[next]
			next++
		}
		c.First = append(c.First, one)
	}
}

// tooLong replaces a reason that does not fit into the attribute.
const tooLong = "the answer is too long"

// fitting encodes an Info with as many extents as an attribute can hold.
func (i *Info) fitting() ([]byte, error) {
	for {
		value, err := json.Marshal(i)
		switch {
		case err != nil || len(value) <= posix.MaxXattr:
			return value, err
		case i.Content == nil || len(i.Content.First) == 0 && (i.Content.Unknown == "" || i.Content.Unknown == tooLong):
			return nil, posix.E2BIG
		case len(i.Content.First) == 0:
			i.Content.Unknown = tooLong
		}
		i.Content.First = i.Content.First[:len(i.Content.First)/2]
	}
}
