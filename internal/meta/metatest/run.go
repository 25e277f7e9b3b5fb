package metatest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Store has the keys of a machine.
type Store interface {
	meta.Keys
	Commit(sync bool) error
}

// Config is the partition that Run tests.
var Config = meta.Config{
	Partition: 3,
	Genesis:   []meta.Birth{{Name: "remote", Ino: posix.MakeIno(4, 1)}},
	Time:      1000,
}

// run has two machines and the model, which must agree.
type run struct {
	generator
	stores   [2]Store
	machines [2]*meta.Machine
	counter  uint64
}

// Run executes the same random commands on two machines with empty stores and on the model, until source
// ends. fresh returns another empty store. Run returns the first difference as an error.
func Run(source Source, stores [2]Store, fresh func() Store) error {
	r := &run{stores: stores}
	r.generator = generator{source: source, model: NewModel(Config, map[posix.BlockID][]byte{}), time: Config.Time}
	for i, keys := range stores {
		var err error
		if r.machines[i], err = meta.New(keys, Config); err != nil {
			return err
		}
	}
	for !r.ended {
		if err := r.step(fresh); err != nil {
			return fmt.Errorf("update %d: %w", r.counter, err)
		}
	}
	return r.finish(fresh)
}

func (r *run) step(fresh func() Store) error {
	switch {
	case r.chance(30):
		return r.reap()
	case r.chance(30):
		return r.collect()
	case r.chance(200):
		return r.replace(fresh)
	case r.chance(3):
		return r.ask()
	}
	if err := r.update(r.command()); err != nil {
		return err
	}
	if err := r.stores[0].Commit(false); err != nil {
		return err
	}
	if r.chance(10) {
		return r.stores[1].Commit(true)
	}
	return nil
}

// update encodes and decodes c, and applies it to the model and to both machines.
func (r *run) update(c *meta.Command) error {
	decoded, err := meta.DecodeCommand(c.Append(nil))
	if err != nil {
		return fmt.Errorf("%+v: %w", c, err)
	}
	decoded.Session = writer
	r.counter++
	want := r.model.Apply(c, r.counter)
	for _, m := range r.machines {
		got := m.Apply(&decoded, r.counter)
		if c.Op != meta.OpWrite {
			got.Number = 0 // only says where the inode is
		}
		if got.Code == posix.EREMOTE {
			got = meta.Result{Code: posix.ESTALE} // there is no other partition
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("%+v: %+v, want %+v", c, got, want)
		}
	}
	return nil
}

// ask compares the answer to a query.
func (r *run) ask() error {
	m := r.machines[r.pick(2)]
	switch r.pick(4) {
	case 0:
		return r.model.sameDir(m, r.dir(), uint64(1+r.pick(5)))
	case 1:
		return r.model.sameContent(m, r.ino(posix.TypeRegular), r.offset(), r.offset())
	}
	c := r.query()
	got, want := m.Query(c), r.model.Query(c)
	decoded, err := meta.DecodeResult(got.Append(nil))
	if err != nil {
		return fmt.Errorf("%+v: %+v: %w", c, got, err)
	}
	if c.Op == meta.OpLookup {
		decoded.Number = 0 // only says where the inode is
	}
	if decoded.Code != want.Code || decoded.Attr != want.Attr || !bytes.Equal(decoded.Data, want.Data) ||
		decoded.Number != want.Number || decoded.Number2 != want.Number2 {
		return fmt.Errorf("%+v: %+v, want %+v", c, got, want)
	}
	return nil
}

// reap removes an orphan. Sometimes it tries to remove an inode that is no orphan.
func (r *run) reap() error {
	ino := r.ino(0)
	if orphans := r.model.Orphans(); len(orphans) > 0 && !r.chance(4) {
		ino = orphans[r.pick(len(orphans))].Ino
	}
	r.model.Reap(ino)
	for _, m := range r.machines {
		m.Reap(ino, r.time)
	}
	return nil
}

// collect deletes some of the blocks that were dropped.
func (r *run) collect() error {
	_, dropped, err := meta.DecodeQueue(r.machines[r.pick(2)].Query(queueOf(r.pick(5), r.time)).Data)
	if err != nil {
		return err
	}
	c := r.model.collect(dropped)
	for _, m := range r.machines {
		if got := m.Apply(c, r.counter); got.Number != uint64(len(dropped)) {
			return fmt.Errorf("%+v: %+v, want %d", c, got, len(dropped))
		}
	}
	return nil
}

// replace replaces one machine by a machine that is restored from a snapshot of the other one.
func (r *run) replace(fresh func() Store) error {
	keys, err := r.copyOf(0, fresh)
	if err != nil {
		return err
	}
	r.stores[1] = keys
	r.machines[1], err = meta.New(keys, Config)
	return err
}

func (r *run) copyOf(i int, fresh func() Store) (Store, error) {
	var b bytes.Buffer
	if err := meta.Snapshot(r.stores[i], &b); err != nil {
		return nil, err
	}
	keys := fresh()
	err := meta.ReadSnapshot(&b, func(key, value []byte) error {
		keys.Set(key, value)
		return nil
	})
	return keys, errors.Join(err, keys.Commit(true))
}

// finish compares the whole states: with the model, with each other, and with a restored copy.
func (r *run) finish(fresh func() Store) error {
	var first []byte
	restored, err := r.copyOf(1, fresh)
	if err != nil {
		return err
	}
	for i, keys := range []Store{r.stores[0], r.stores[1], restored} {
		var b bytes.Buffer
		if err := meta.Snapshot(keys, &b); err != nil {
			return err
		}
		if i == 0 {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			return fmt.Errorf("the keys of machine %d differ", i)
		}
	}
	if problems := meta.Check(restored); len(problems) > 0 {
		return fmt.Errorf("check: %q", problems)
	}
	m, err := meta.New(restored, Config)
	if err != nil {
		return err
	}
	return r.model.Same(m)
}
