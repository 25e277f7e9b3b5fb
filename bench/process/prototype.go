package process

// Reference is the cost of a prototype of PrimCast in Rust (pacheco/primcast, e0e8870) on a machine like the
// author's, with other work beside it: the best of its runs. The CPU time is that of the replicas, without
// their clients.
type Reference struct {
	PerSecond float64 `json:"per_second"`
	P50       uint64  `json:"p50_us"`
	CPU       float64 `json:"cpu_seconds_per_10k"`
}

type referenceKey struct {
	shape       string
	outstanding int
}

// ReferenceOf gives the prototype's figures of a point, if it was measured.
func ReferenceOf(shape string, outstanding int) (Reference, bool) {
	r, ok := map[referenceKey]Reference{
		{"a", 1}: {5388, 69, 0.75}, {"a", 16}: {38473, 210, 0.12}, {"a", 128}: {68485, 1206, 0.083}, {"a", 1024}: {78262, 9262, 0.070},
		{"b", 1}: {3017, 272, 3.3}, {"b", 16}: {29875, 487, 0.55}, {"b", 128}: {58964, 1664, 0.21}, {"b", 1024}: {38690, 20761, 0.185},
		{"c", 1}: {3640, 264, 3.1}, {"c", 16}: {6146, 2474, 1.7}, {"c", 128}: {23843, 4901, 0.42}, {"c", 1024}: {42581, 22644, 0.25},
	}[referenceKey{shape, outstanding}]
	return r, ok
}
