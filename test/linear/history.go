package linear

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is the kind of an operation.
type Kind string

// The kinds. Each object has operations of one line.
const (
	Read, Write        Kind = "read", "write"
	Make, Remove, Look Kind = "make", "remove", "look"
	Lock, Unlock       Kind = "lock", "unlock"
)

// Op is an operation on an object.
type Op struct {
	Key          string // of the object
	Worker       int
	Kind         Kind
	Value        int  // that was written or read
	Done         bool // make, remove and lock: it took effect; look: the name is there
	Unknown      bool // there was no answer: it may have taken effect, or may take effect later
	Call, Return time.Duration
}

func (o *Op) String() string {
	return fmt.Sprintf("%v to %v: worker %d: %s %d done=%t unknown=%t", o.Call, o.Return, o.Worker, o.Kind, o.Value, o.Done, o.Unknown)
}

// step executes an operation in the state of its object: the value of a register, 1 for a name that is there,
// the holder of a lock plus 1. ok is false if the operation cannot have its result in this state.
func (o *Op) step(state int) (ok bool, next int) {
	me := o.Worker + 1
	switch o.Kind {
	case Read:
		return state == o.Value, state
	case Write:
		return true, o.Value
	case Make:
		return o.Unknown || o.Done == (state == 0), 1
	case Remove:
		return o.Unknown || o.Done == (state == 1), 0
	case Look:
		return o.Done == (state == 1), state
	case Lock:
		free := state == 0 || state == me
		if free && (o.Done || o.Unknown) {
			return true, me
		}
		return o.Unknown || o.Done == free, state
	case Unlock:
		if state == me {
			return true, 0
		}
		return true, state
	}
	return false, state
}

var model = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := input.(*Op).step(state.(int))
		return ok, next
	},
}

// Check returns an error if the history of an object is not linearizable, or if that is not known in time.
func Check(history []Op, within time.Duration) error {
	objects := map[string][]porcupine.Operation{}
	for i := range history {
		o := &history[i]
		if o.Unknown && (o.Kind == Read || o.Kind == Look) {
			continue // it has told nothing, and changes nothing
		}
		end := int64(o.Return)
		if o.Unknown {
			end = math.MaxInt64
		}
		objects[o.Key] = append(objects[o.Key], porcupine.Operation{ClientId: o.Worker, Input: o, Call: int64(o.Call), Return: end})
	}
	for key, of := range objects {
		switch porcupine.CheckOperationsTimeout(model, of, within) {
		case porcupine.Illegal:
			return fmt.Errorf("the history of %s is not linearizable:\n%s", key, list(of))
		case porcupine.Unknown:
			return fmt.Errorf("the history of %s was not checked within %v:\n%s", key, within, list(of))
		}
	}
	return nil
}

// list describes a history in the order of the calls.
func list(of []porcupine.Operation) string {
	slices.SortFunc(of, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	lines := make([]string, len(of))
	for i := range of {
		lines[i] = of[i].Input.(*Op).String()
	}
	return strings.Join(lines, "\n")
}
