package sim

// Mark names a rare situation. A test that runs many seeds demands that its runs reach the situation.
type Mark uint8

// The marks.
const (
	Torn        Mark = iota // some of the records of a step became durable, and not all
	Unsent                  // the records of a step became durable, and its frames never left
	CutFrames               // frames were on the way when their link was cut
	CutOneWay               // a link was cut in one direction
	CutRegion               // a whole region was cut off
	CutSurvived             // both ends of a cut link lived until it was mended
	CutRestart              // a process started while a link of its own was cut
	Late                    // a frame took longer because its link lagged
	Killed                  // a process stopped for ever
	KilledMost              // a group lost as many processes as it can
	Chased                  // a leader was stopped, and the next one soon after it
	Replaced                // a spare was started for a process that had been killed
	Transferred             // a process took over the state of another
	Moved                   // a process was asked to lead its group
	Withdrawn               // a process learned that the client of a call had given up
	Overflowed              // more bytes were sent to a process than the window of a link holds
	Evicted                 // a member that lived was to be replaced
	Grown                   // a process was to join a group
	Shrunk                  // a member that lived was to leave its group
	Retired                 // a process learned that it is no longer a member
	Dark                    // a group lost power
	DarkLost                // a group lost power, and records that were written and not synced
	Learned                 // the state machine of a process learned deliveries that its core had not made
	Outage                  // a process lost power alone
	OutageLost              // a process lost power alone, and records that were written and not synced
	Forgotten               // early frames of a step arrived, and its records did not become durable
	markCount
)

var markNames = [markCount]string{
	"torn", "unsent", "cut-frames", "cut-one-way", "cut-region", "cut-survived", "cut-restart",
	"late", "killed", "killed-most", "chased", "replaced", "transferred", "moved", "withdrawn", "overflowed",
	"evicted", "grown", "shrunk", "retired", "dark", "dark-lost", "learned", "outage", "outage-lost",
	"forgotten",
}

// String returns the name of the mark in traces.
func (m Mark) String() string { return markNames[m] }

// Marks counts how often each situation was reached.
type Marks [markCount]int

// Marks returns the counts of the situations that the run has reached.
func (n *Network) Marks() Marks { return n.marks }

func (n *Network) mark(m Mark) { n.marks[m]++ }
