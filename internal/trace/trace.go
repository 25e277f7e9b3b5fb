// Package trace records the steps of single operations in one process: of a mount, or of a server.
//
// Each process has a Recorder, which records nothing until it is started, and stops by itself. The command
// 'globalfs trace' starts the recorders of a mount and of all servers, makes one operation, and merges the
// events. A command is recognized in all processes by its session and its number (Command); so no message
// has additional fields, and servers of versions without traces take part in the operation.
//
// Events contain names of steps, sizes and numbers: no names of files, and no content.
package trace

import (
	"sync"
	"sync/atomic"
	"time"
)

// MaxEvents is the maximum number of events of a recording. Further events are counted, and dropped.
const MaxEvents = 4096

// MaxTime is the maximum time of a recording.
const MaxTime = time.Minute

// Command names an update: by the session of its client, and by its number in the session. The zero Command
// stands for no update, such as a read.
type Command struct {
	Session uint64 `json:"session,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
}

// Event is one step.
type Event struct {
	At        time.Time     `json:"at"`                  // by the clock of the process
	Took      time.Duration `json:"took,omitempty"`      // in nanoseconds; 0: At is a moment
	Partition *uint16       `json:"partition,omitempty"` // nil: the step is none of a partition
	Commands  []Command     `json:"commands,omitempty"`  // that the step concerns
	Thread    uint32        `json:"thread,omitempty"`    // of the program, of a request of the kernel
	Step      string        `json:"step"`
	// Executes means that the replica of Partition has executed Commands.
	Executes bool `json:"executes,omitempty"`
}

// Recording are the events of a process.
type Recording struct {
	Now     time.Time `json:"now"` // the clock of the process when it answered
	Events  []Event   `json:"events"`
	Dropped int       `json:"dropped,omitempty"` // events beyond MaxEvents
}

// Recorder records events. The zero Recorder is ready for use. Its methods are called concurrently; a nil
// Recorder never records.
type Recorder struct {
	until atomic.Int64 // in Unix nanoseconds; 0: it does not record

	mu      sync.Mutex
	events  []Event // GUARDED_BY mu
	dropped int     // GUARDED_BY mu
}

// Start begins a recording, which ends after d, at most MaxTime. It drops the events of an earlier one.
func (r *Recorder) Start(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.dropped = nil, 0
	r.until.Store(time.Now().Add(min(d, MaxTime)).UnixNano())
}

// On reports whether events are recorded now. It costs one load while nothing is recorded.
func (r *Recorder) On() bool {
	if r == nil {
		return false
	}
	until := r.until.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// Add adds an event, if events are recorded now.
func (r *Recorder) Add(e Event) {
	if !r.On() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) >= MaxEvents {
		r.dropped++
		return
	}
	r.events = append(r.events, e)
}

// Stop ends the recording, and returns it.
func (r *Recorder) Stop() Recording {
	r.until.Store(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	got := Recording{Now: time.Now(), Events: r.events, Dropped: r.dropped}
	r.events, r.dropped = nil, 0
	return got
}
