package check

// graph is a directed graph over 0..n-1. Its edges carry a label.
type graph [][]edge

type edge struct{ to, label int }

func (g graph) add(from, to, label int) { g[from] = append(g[from], edge{to, label}) }

// arc is an edge of a path.
type arc struct {
	from int
	edge
}

// cycle returns a short cycle; nil if there is none.
func (g graph) cycle() []arc {
	if on := g.onCycle(); on >= 0 {
		return g.shortest(on)
	}
	return nil
}

// onCycle returns a node of some cycle, or -1. It is a depth-first search that finds a node which it has
// entered and not left. It uses no recursion, because histories are long.
func (g graph) onCycle() int {
	const (
		unseen = iota
		open
		left
	)
	state := make([]uint8, len(g))
	next := make([]int, len(g)) // the edge to follow next
	var path []int
	for start := range g {
		if state[start] != unseen {
			continue
		}
		path = append(path[:0], start)
		state[start] = open
		for len(path) > 0 {
			at := path[len(path)-1]
			if next[at] == len(g[at]) {
				state[at] = left
				path = path[:len(path)-1]
				continue
			}
			to := g[at][next[at]].to
			next[at]++
			switch state[to] {
			case open:
				return to
			case unseen:
				state[to] = open
				path = append(path, to)
			}
		}
	}
	return -1
}

// shortest returns a shortest cycle through a node that is on a cycle.
func (g graph) shortest(start int) []arc {
	reached := make([]arc, len(g)) // the edge by which a node was first reached
	seen := make([]bool, len(g))
	for queue := []int{start}; !seen[start]; queue = queue[1:] {
		at := queue[0]
		for _, e := range g[at] {
			if !seen[e.to] {
				seen[e.to] = true
				reached[e.to] = arc{at, e}
				queue = append(queue, e.to)
			}
		}
	}
	path := []arc{reached[start]}
	for path[0].from != start {
		path = append([]arc{reached[path[0].from]}, path...)
	}
	return path
}
