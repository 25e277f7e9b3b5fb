package batching

// row is a row of the paper's Tables 3 and 4: the figures that the paper prints for one batch.
type row struct {
	setting    string
	request, k int
	windows    [2]int  // the smallest window with the highest throughput is in this range, by experiment
	throughput float64 // requests a second, by experiment
}

// rows are Table 3 (cluster) and Table 4 (emulab). The row that Table 4 calls 32 KB has 512 requests: see
// pkg/batching.
var rows = []row{
	{"cluster", 128, 1, [2]int{1, 1}, 1895},
	{"cluster", 128, 2, [2]int{1, 1}, 3126},
	{"cluster", 128, 8, [2]int{1, 1}, 7745},
	{"cluster", 128, 256, [2]int{1, 1}, 12488},
	{"cluster", 128, 512, [2]int{1, 1}, 12100},
	{"cluster", 1 << 10, 1, [2]int{1, 1}, 1850},
	{"cluster", 1 << 10, 2, [2]int{1, 1}, 3380},
	{"cluster", 1 << 10, 8, [2]int{1, 1}, 7050},
	{"cluster", 1 << 10, 256, [2]int{1, 1}, 10680},
	{"cluster", 1 << 10, 512, [2]int{1, 1}, 10400},
	{"cluster", 8 << 10, 1, [2]int{1, 1}, 1634},
	{"cluster", 8 << 10, 2, [2]int{1, 1}, 2687},
	{"cluster", 8 << 10, 8, [2]int{1, 1}, 4328},
	{"cluster", 8 << 10, 32, [2]int{1, 2}, 4900},
	{"cluster", 8 << 10, 64, [2]int{1, 2}, 4900},
	{"emulab", 128, 1, [2]int{30, 35}, 330},
	{"emulab", 128, 2, [2]int{25, 30}, 550},
	{"emulab", 128, 8, [2]int{20, 25}, 1800},
	{"emulab", 128, 128, [2]int{2, 5}, 3100},
	{"emulab", 128, 512, [2]int{1, 2}, 3300},
	{"emulab", 1 << 10, 1, [2]int{30, 40}, 310},
	{"emulab", 1 << 10, 2, [2]int{30, 40}, 600},
	{"emulab", 1 << 10, 8, [2]int{15, 20}, 1030},
	{"emulab", 1 << 10, 128, [2]int{1, 2}, 1120},
	{"emulab", 1 << 10, 256, [2]int{1, 2}, 1100},
	{"emulab", 8 << 10, 1, [2]int{15, 20}, 144},
	{"emulab", 8 << 10, 2, [2]int{5, 10}, 144},
	{"emulab", 8 << 10, 8, [2]int{2, 5}, 144},
	{"emulab", 8 << 10, 16, [2]int{1, 2}, 144},
	{"emulab", 8 << 10, 32, [2]int{1, 2}, 144},
}

// requests are the sizes of requests in bytes, with which the paper measured.
var requests = []int{128, 1 << 10, 8 << 10}
