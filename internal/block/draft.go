package block

// firstRoom is the room of a draft at first, in bytes.
const firstRoom = 16 << 10

// Draft is the data of a block that is being collected. Its memory has room for the head of the block's frame
// in front of the data, so that Seal need not copy the data. The zero Draft is empty.
type Draft struct {
	frame  []byte // nil: the draft is empty
	sealed bool   // a block has the memory of frame
}

// NewDraft makes a draft with a copy of data.
func NewDraft(data []byte) *Draft {
	d := &Draft{}
	d.Append(data)
	return d
}

// Len returns the number of bytes.
func (d *Draft) Len() int { return max(len(d.frame)-frameOffset, 0) }

// Data returns the bytes. They may be changed before Seal.
func (d *Draft) Data() []byte { return d.frame[min(frameOffset, len(d.frame)):] }

// Reserve makes room for n bytes in all.
func (d *Draft) Reserve(n int) {
	if frameOffset+n > cap(d.frame) {
		d.frame = append(make([]byte, 0, frameOffset+n), d.frame...)
	}
}

// noFrame begins a frame. It has no room, so that append takes new memory and does not clear the part that it
// fills at once.
var noFrame = make([]byte, frameOffset)

// Append adds data. The room doubles, up to a whole block. Append must not follow Seal.
func (d *Draft) Append(data []byte) {
	size := d.Len()
	switch {
	case size == 0 && len(data) > firstRoom && cap(d.frame) < frameOffset+len(data):
		d.frame = append(noFrame[:frameOffset:frameOffset], data...) //nolint:gocritic // new memory on purpose
		return
	case frameOffset+size+len(data) > cap(d.frame):
		d.Reserve(max(size+len(data), min(max(firstRoom, 2*size), MaxSize)))
	}
	if len(d.frame) == 0 {
		d.frame = d.frame[:frameOffset]
	}
	d.frame = append(d.frame, data...)
}

// Seal returns a block with an id and the data of the draft. The data must not be changed afterwards. The
// first block uses the memory of the draft. Later blocks have a copy of the data, and so has a block that
// would keep much unused memory.
func (d *Draft) Seal(id ID) Block {
	if d.sealed || d.Len() == 0 || cap(d.frame) > len(d.frame)+len(d.frame)/4 {
		return New(id, d.Data())
	}
	d.sealed = true
	b := Block{ID: id, Sum: Sum(id, d.Data()), Data: d.Data(), frame: d.frame}
	b.putHead()
	return b
}
