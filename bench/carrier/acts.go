package carrier

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// act is an operation of several partitions that is repeated. Regions are indices of Config.Regions.
type act struct {
	operation string
	parties   []int // the first one receives the request
	client    int
	make      func(*actor) error        // makes the files
	next      func(*actor) meta.Command // the next repetition
}

// actor repeats an act in a cluster.
type actor struct {
	*act
	*virtual.Client
	parties []uint16
	file    posix.Ino
	done    int // repetitions
}

// acts returns the operations over two and three regions, from each party, and from a region that is no
// party.
func acts() []act {
	var all []act
	for _, asked := range [][]int{{0, 1}, {1, 0}} {
		all = append(all,
			act{operation: "link", parties: asked, client: asked[0], make: makeRemote, next: linkAgain},
			act{operation: "rename", parties: asked, client: asked[0], make: makeNear, next: renameAgain})
	}
	all = append(all,
		act{operation: "link", parties: []int{1, 0}, client: 2, make: makeRemote, next: linkAgain},
		act{operation: "rename", parties: []int{1, 0}, client: 2, make: makeNear, next: renameAgain})
	for _, asked := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}} {
		all = append(all, act{operation: "rename", parties: asked, client: asked[0], make: makeElsewhere, next: renameThree})
	}
	return all
}

// start prepares an act in a cluster.
func (a *act) start(k *virtual.Cluster) (*actor, error) {
	x := &actor{act: a, Client: k.NewClient(k.Regions[a.client])}
	for _, r := range a.parties {
		x.parties = append(x.parties, uint16(r+1))
	}
	for p := range k.Groups {
		if err := x.Open(uint16(p)); err != nil {
			return nil, err
		}
	}
	return x, a.make(x)
}

// step repeats the act once, and waits for the answer.
func (x *actor) step() (time.Duration, error) {
	a, err := x.Wait(posix.OK, x.next(x), x.parties...)
	x.done++
	return a.Took, err
}

// makeRemote makes the file to link, in the party that does not receive the request.
func makeRemote(x *actor) (err error) {
	x.file, err = x.Client.File(x.parties[1], "file")
	return err
}

func linkAgain(x *actor) meta.Command {
	return virtual.LinkIn(x.file, x.parties[0], fmt.Sprintf("link%d", x.done))
}

// makeNear makes the file to rename, in the party that receives the request.
func makeNear(x *actor) (err error) {
	x.file, err = x.Client.File(x.parties[0], "file")
	return err
}

// renameAgain moves the file to the other party, or back.
func renameAgain(x *actor) meta.Command { return x.between(x.parties[0], x.parties[1]) }

func (x *actor) between(a, b uint16) meta.Command {
	if x.done%2 == 1 {
		a, b = b, a
	}
	return virtual.Rename(x.file, "file", a, b)
}

// The file of a rename over three regions is born in the last region. The partition of that region keeps the
// number of the file, and the file moves between the other regions.
const born, first, second = 3, 1, 2

func makeElsewhere(x *actor) (err error) {
	if x.file, err = x.Client.File(born, "file"); err != nil {
		return err
	}
	_, err = x.Wait(posix.OK, virtual.Rename(x.file, "file", born, first), born, first)
	return err
}

func renameThree(x *actor) meta.Command { return x.between(first, second) }

// slowest returns the round trip of the slowest link that an act needs: between two parties, or between the
// client and the party that receives its request.
func (a *act) slowest(regions []topology.Region) (rtt time.Duration) {
	asked := regions[a.parties[0]]
	rtt = 2 * topology.Delay(regions[a.client], asked)
	for _, p := range a.parties {
		for _, q := range a.parties {
			rtt = max(rtt, 2*topology.Delay(regions[p], regions[q]))
		}
	}
	return rtt
}

// names returns the regions of the parties.
func (a *act) names(regions []topology.Region) (all []topology.Region) {
	for _, p := range a.parties {
		all = append(all, regions[p])
	}
	return all
}
