package heron

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/fabric"
)

// objects are those of this process's group, in registered memory.
type objects struct {
	cfg     *Config
	memory  fabric.Memory
	slots   map[ObjectID]int
	ids     []ObjectID // by slot
	updates []update   // the latest, in the order of their tags
	// complete: updates has all updates with this tag and higher ones.
	complete uint64
}

// update is a write of an object.
type update struct {
	tag  uint64
	slot int
}

func newObjects(cfg *Config) *objects { return &objects{cfg: cfg, slots: map[ObjectID]int{}} }

// place of a version in the region.
func (o *objects) place(slot, index int) int {
	return slot*o.cfg.slotSize() + slotHeader + index*o.cfg.versionSize()
}

// load returns both versions of a slot. In the process's own memory they are always valid.
func (o *objects) load(slot int) (versions [2]version) {
	b := make([]byte, o.cfg.versionSize())
	for i := range versions {
		o.memory.Load(o.place(slot, i), b)
		v, ok := decodeVersion(o.ids[slot], b)
		invariant.Check(ok, "version %d of object %d in slot %d is damaged", i, o.ids[slot], slot)
		versions[i] = v
	}
	return versions
}

// newest returns the version with the higher tag (get of the paper); tag 0 if the object was never written.
func (o *objects) newest(id ObjectID) version {
	slot, ok := o.slots[id]
	if !ok {
		return version{}
	}
	v := o.load(slot)
	if v[1].tag > v[0].tag {
		return v[1]
	}
	return v[0]
}

// set writes a version over the older one of the slot (set of the paper).
func (o *objects) set(id ObjectID, value []byte, tag uint64) {
	v := version{tag: tag, prev: o.newest(id).tag, value: value}
	o.put(o.slot(id), v)
}

// slot returns the slot of an object, and makes one for a new object.
func (o *objects) slot(id ObjectID) int {
	slot, ok := o.slots[id]
	if !ok {
		invariant.Check(len(o.ids) < o.cfg.Objects, "object %d has no slot: the group has %d objects already", id, o.cfg.Objects)
		slot = len(o.ids)
		o.slots[id] = slot
		o.ids = append(o.ids, id)
		var b [slotHeader]byte
		le.PutUint64(b[:], uint64(id))
		o.memory.Store(slot*o.cfg.slotSize(), b[:])
	}
	return slot
}

// put writes a version into a slot.
func (o *objects) put(slot int, v version) {
	old, older := o.load(slot), 0
	if old[1].tag < old[0].tag {
		older = 1
	}
	invariant.Check(v.tag > old[1-older].tag, "object %d goes back from version %d to %d", o.ids[slot], old[1-older].tag, v.tag)
	invariant.Check(len(v.value) <= o.cfg.ObjectSize, "object %d has %d bytes, more than %d", o.ids[slot], len(v.value), o.cfg.ObjectSize)
	o.memory.Store(o.place(slot, older), v.encode(o.ids[slot]))
	o.updates = append(o.updates, update{v.tag, slot})
	if len(o.updates) > 2*o.cfg.KeepUpdates {
		o.forget(len(o.updates) - o.cfg.KeepUpdates)
	}
}

// forget drops the first updates.
func (o *objects) forget(count int) {
	o.complete = o.updates[count-1].tag + 1
	o.updates = append([]update{}, o.updates[count:]...)
}

// since returns the slots written with a tag or a higher one, each once, in ascending order.
func (o *objects) since(tag uint64) (slots []int) {
	if tag < o.complete {
		for slot := range o.ids {
			slots = append(slots, slot)
		}
		return slots
	}
	written := make([]bool, len(o.ids))
	for i := len(o.updates) - 1; i >= 0 && o.updates[i].tag >= tag; i-- {
		written[o.updates[i].slot] = true
	}
	for slot, is := range written {
		if is {
			slots = append(slots, slot)
		}
	}
	return slots
}
